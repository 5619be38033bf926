//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "check/FirstLaunch.h"

#include "api/State.h"
#include "check/Compare.h"
#include "check/RowReference.h"
#include "check/RowSample.h"
#include "system/Caught.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>

namespace tesela {

namespace {

/// After this many launches that allow no comparison, the kernel counts as not verified, because
/// each attempt costs as much as a verification.
constexpr int mostUnknowns = 8;

/// Whether launches on `stream` become part of a graph, so that nothing may wait for them.
bool isCapturing(const LoadedCode &code, void *stream) {
  Result<bool> entered = code.enter();
  if (!entered)
    return true;
  Result<StreamUse> use = code.streamUse(stream, /*isNumbered=*/false);
  if (*entered)
    code.leave();
  return !use || use->isCaptured;
}

/// Whether a result may overwrite an input.
bool isInPlace(const LaunchArguments &arguments) {
  std::vector<Tensor> inputs = {arguments.q, arguments.k, arguments.v};
  for (const CaptureArgument &capture : arguments.captures)
    inputs.push_back(capture.tensor);
  auto begin = [](const Tensor &tensor) { return static_cast<const char *>(tensor.data); };
  auto end = [&](const Tensor &tensor) { return begin(tensor) + tensor.spanBytes(); };
  for (const Tensor &result : {arguments.o, arguments.lse})
    for (const Tensor &input : inputs)
      if (begin(result) < end(input) && begin(input) < end(result))
        return true;
  return false;
}

Extents extentsOf(const LaunchArguments &arguments) {
  const auto &q = arguments.q.extents, &k = arguments.k.extents;
  return {int32_t(q[0]), int32_t(q[1]), int32_t(k[1]), int32_t(q[2]), int32_t(k[2])};
}

/// Copies of a GPU's inputs in host memory.
class HostCopies {
public:
  Status copy(const Backend &backend, const LaunchArguments &from, void *stream) {
    arguments = from;
    std::vector<Tensor *> tensors = {&arguments.q, &arguments.k, &arguments.v};
    for (CaptureArgument &capture : arguments.captures)
      tensors.push_back(&capture.tensor);
    for (Tensor *tensor : tensors) {
      std::vector<char> &bytes = memory.emplace_back(tensor->spanBytes());
      if (Status status = backend.copyToHost(bytes.data(), tensor->data, bytes.size(), stream);
          !status)
        return status;
      tensor->data = bytes.data();
    }
    return Status::success();
  }

  LaunchArguments arguments;

private:
  std::vector<std::vector<char>> memory;
};

/// Rows of a launch's results, copied to host memory in the form of a reference of these rows.
struct HostRows {
  std::vector<char> o;
  std::vector<float> lse;

  /// If the launch has no lse, the expected one is copied.
  Status copy(const Backend &backend, const LaunchArguments &from, const Reference &expected,
              const std::vector<int64_t> &rows, void *stream) {
    const Tensor &tensor = from.o;
    int64_t elementBytes = elementSize(tensor.type), heads = tensor.extents[1],
            queries = tensor.extents[2], rowBytes = tensor.extents[3] * elementBytes;
    o.resize(rows.size() * size_t(rowBytes));
    lse.assign(expected.lse.begin(), expected.lse.end());
    for (size_t i = 0; i < rows.size(); ++i) {
      int64_t row = rows[i];
      int64_t offset = row / queries / heads * tensor.strides[0] +
                       row / queries % heads * tensor.strides[1] +
                       row % queries * tensor.strides[2];
      const char *source = static_cast<const char *>(tensor.data) + offset * elementBytes;
      if (Status status =
              backend.copyToHost(&o[i * size_t(rowBytes)], source, size_t(rowBytes), stream);
          !status)
        return status;
      if (!from.lse.data)
        continue;
      const float *logarithm = static_cast<const float *>(from.lse.data) + row;
      if (Status status = backend.copyToHost(&lse[i], logarithm, sizeof(float), stream); !status)
        return status;
    }
    return Status::success();
  }
};

/// What to do about a wrong result.
std::string remedy(const KernelInfo &info) {
  std::string report = "this is a defect of Tesela, please report it with the variant";
  if (info.schedule.find("overlap = true") != std::string::npos)
    report += "; until then try the schedule \"overlap = false\"";
  return report;
}

} // namespace

/// By the oracle; by the interpreter without NVRTC or if the oracle refuses the variant.
Result<Reference> FirstLaunch::reference(const Backend &backend, const LaunchArguments &arguments,
                                         const std::vector<int64_t> &rows, void *stream) {
  if (backend.device().kind == Device::Kind::host)
    return hostReferenceOf(rows, options, arguments, threads);
  Result<Reference> made = deviceReferenceOf(rows, backend, *oracles, options, arguments, stream);
  if (made.code() != Code::notFound && made.code() != Code::unsupported)
    return made;
  HostCopies copies;
  if (Status status = copies.copy(backend, arguments, stream); !status)
    return status.error();
  return hostReferenceOf(rows, options, copies.arguments, threads);
}

FirstLaunch::Finding FirstLaunch::verify(const LoadedKernel &kernel,
                                         const LaunchArguments &arguments,
                                         const std::vector<int64_t> &rows, void *stream) {
  if (isInPlace(arguments))
    return {Verdict::impossible, "its outputs overlap its inputs in memory"};
  Result<Reference> expected = reference(*kernel.backend, arguments, rows, stream);
  if (!expected)
    return {Verdict::impossible, expected.error().message()};
  HostRows results;
  if (Status status = results.copy(*kernel.backend, arguments, *expected, rows, stream); !status)
    return {Verdict::impossible, status.error().message()};
  auto count = int64_t(rows.size());
  Tensor o = Tensor::bhsd(results.o.data(), expected->type, 1, 1, count, expected->Dv),
         lse = Tensor::contiguous(results.lse.data(), ElementType::f32, {1, 1, count});
  Extents extents = extentsOf(arguments);
  Result<Comparison> compared = compareRows(
      *expected, o, lse, [&](int64_t row) { return rowText(rows[row], extents.H, extents.Sq); });
  if (!compared)
    return {Verdict::impossible, compared.error().message()};
  if (compared->passed)
    return {Verdict::right, ""};
  if (std::isnan(compared->tolerance))
    return {Verdict::unknown, compared->failure};
  const KernelInfo &info = kernel.info;
  return {Verdict::wrong,
          fmt::format("the first launch of '{}' ({}, {}, head dimensions {} and {}) at B {}, H {}, "
                      "Hkv {}, Sq {}, Sk {} gives a wrong result: {}; {}",
                      info.variantName, info.target, elementTypeName(info.inputType),
                      info.headDimQk, info.headDimV, extents.B, extents.H, extents.Hkv, extents.Sq,
                      extents.Sk, compared->failure, remedy(info))};
}

void FirstLaunch::tell(const LoadedKernel &kernel, const std::string &rows,
                       double milliseconds) const {
  if (!events->wantsEvents())
    return;
  Event event;
  event.kind = Event::Kind::verified;
  event.variant = kernel.info.variantName;
  event.target = kernel.info.target;
  event.text = rows;
  event.milliseconds = milliseconds;
  event.failure = failure;
  events->emit(event);
}

Status FirstLaunch::check(const LoadedKernel &kernel, const LaunchArguments &arguments,
                          void *stream) {
  State now = state.load(std::memory_order_acquire);
  if (now == State::failed)
    return *failure;
  Extents extents = extentsOf(arguments);
  bool computes = int64_t(extents.B) * extents.H * extents.Sq > 0 && extents.Sk > 0;
  if (now != State::pending || !computes || isCapturing(*kernel.code, stream) ||
      !state.compare_exchange_strong(now, State::running, std::memory_order_acquire))
    return Status::success();

  auto begin = std::chrono::steady_clock::now();
  std::string looked; // "64 of 8192 rows"
  Result<Finding> finding = caught([&]() -> Result<Finding> {
    std::vector<int64_t> rows = sampleRows(extents);
    looked = fmt::format("{} of {} rows", rows.size(), int64_t(extents.B) * extents.H * extents.Sq);
    return verify(kernel, arguments, rows, stream);
  });
  if (!finding)
    finding = Finding{Verdict::impossible, finding.error().message()};
  double milliseconds =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();

  State next = State::over;
  Status result = Status::success();
  if (finding->verdict == Verdict::wrong) {
    failure = Error(Code::defect, finding->sentence);
    next = State::failed;
    result = *failure;
  } else if (finding->verdict == Verdict::unknown && ++unknowns < mostUnknowns) {
    next = State::pending;
  } else if (finding->verdict != Verdict::right) {
    // An error of the kernel appears when something waits for it, and is then this launch's
    // failure.
    result = kernel.backend->synchronize(stream);
    if (result)
      events->warn(fmt::format("the kernel of '{}' is not verified: {}", kernel.info.variantName,
                               finding->sentence));
  }
  if (finding->verdict == Verdict::right || finding->verdict == Verdict::wrong)
    tell(kernel, looked, milliseconds);
  state.store(next, std::memory_order_release);
  return result;
}

} // namespace tesela
