//===- SequenceProblem.cpp ------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "SequenceProblem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

namespace tesela::tool {

namespace {

template <typename T> Status statusOf(const Result<T> &result) {
  return result ? Status::success() : Status(result.error());
}

/// The address of element [b, h, row, 0] of a view [B, H, S, D].
char *rowOf(const Tensor &view, int64_t b, int64_t h, int64_t row) {
  int64_t element = b * view.strides[0] + h * view.strides[1] + row * view.strides[2];
  return static_cast<char *>(view.data) + element * int64_t(elementSize(view.type));
}

float numberAt(const char *row, ElementType type, int64_t x) {
  if (type == ElementType::f32)
    return reinterpret_cast<const float *>(row)[x];
  uint16_t bits = reinterpret_cast<const uint16_t *>(row)[x];
  return type == ElementType::f16 ? f16ToFloat(bits) : bf16ToFloat(bits);
}

void setNumber(char *row, ElementType type, int64_t x, float value) {
  if (type == ElementType::f32)
    reinterpret_cast<float *>(row)[x] = value;
  else
    reinterpret_cast<uint16_t *>(row)[x] =
        type == ElementType::f16 ? floatToF16(value) : floatToBf16(value);
}

class Builder {
public:
  Builder(const RunOptions &options, const Problem &problem)
      : options(options), problem(problem), random(options.seed + 77) {}

  Result<SequenceProblem> build() {
    bool isPaged = options.page > 0, isGiven = options.positions == "given";
    chooseLengths();
    result.algorithm = options.split ? "forward_in_parts" : "forward";
    if (options.ragged)
      result.bindings.push_back("queries=ragged");
    result.bindings.push_back(isPaged ? fmt::format("page={}", options.page) : "keys=ragged");
    if (isPaged)
      result.bindings.push_back("keys=paged");
    result.bindings.push_back("positions=" + options.positions);
    if (isNarrow())
      result.bindings.insert(result.bindings.end(), {"cache=e4m3", "scales=" + options.scales});
    if (!options.values.empty())
      result.bindings.push_back("values=" + options.values);
    std::vector<int32_t> starts, offsets, lengths, startsK(1, 0);
    for (const auto &each : result.sequences) {
      starts.push_back(int32_t(each.start));
      offsets.push_back(int32_t(each.offset));
      lengths.push_back(int32_t(each.keys));
      startsK.push_back(startsK.back() + int32_t(each.keys));
    }
    starts.push_back(int32_t(tokens));
    ElementType type = problem.type;
    Status status = addQueries("q", type, problem.Dqk);
    if (status.ok())
      status = isPaged ? addPages("k", problem.kView) : addTokens("k", problem.kView, startsK);
    if (status.ok())
      status = isPaged ? addPages("v", problem.vView) : addTokens("v", problem.vView, startsK);
    if (status.ok())
      status = addQueries("o", type, problem.Dv);
    if (status.ok())
      status = addLse();
    if (status.ok() && options.ragged)
      status = addIntegers("starts_q", starts, {int64_t(starts.size())});
    if (status.ok() && isGiven)
      status = addIntegers("offsets", offsets, {problem.B});
    if (status.ok() && isPaged)
      status = addIntegers("lengths", lengths, {problem.B});
    if (status.ok() && isPaged)
      status = addIntegers("table", table, {problem.B, pagesOfSequence()});
    if (status.ok() && !isPaged)
      status = addIntegers("starts_k", startsK, {int64_t(startsK.size())});
    if (status.ok() && isNarrow())
      status = addScales("k_scale", problem.kView.extents[1]);
    if (status.ok() && isNarrow())
      status = addScales("v_scale", problem.vView.extents[1]);
    if (!status)
      return status.error();
    copyQueries();
    return std::move(result);
  }

private:
  const RunOptions &options;
  const Problem &problem;
  std::mt19937_64 random;
  SequenceProblem result;
  int64_t tokens = 0;
  std::vector<int32_t> table;

  bool isNarrow() const { return !options.cache.empty(); }
  bool isByPage() const { return options.scales == "page"; }
  ElementType keyType() const { return isNarrow() ? ElementType::e4m3 : problem.type; }
  int64_t pageCount() const { return problem.B * pagesOfSequence() + 1; }

  int64_t upTo(int64_t most) { return int64_t(random() % uint64_t(most + 1)); }
  int64_t pagesOfSequence() const { return (problem.Sk + options.page - 1) / options.page; }

  void chooseLengths() {
    for (int64_t b = 0; b < problem.B; ++b) {
      SequenceProblem::Sequence each{problem.Sq, problem.Sk, 0, tokens};
      if (b > 0 && options.ragged)
        each.queries = upTo(problem.Sq);
      if (b > 0) // with equal lengths, the queries' own tokens are the sequence's keys
        each.keys = problem.Sq == problem.Sk && options.ragged
                        ? each.queries
                        : std::min(problem.Sk, each.queries) +
                              upTo(problem.Sk - std::min(problem.Sk, each.queries));
      int64_t before = each.keys - each.queries;
      if (options.positions == "end")
        each.offset = before;
      else if (options.positions == "given")
        each.offset = upTo(std::max<int64_t>(before, 0));
      tokens += each.queries;
      result.sequences.push_back(each);
    }
  }

  Result<HostTensor *> add(const char *name, const Tensor &shape, const Tensor &view) {
    Result<HostTensor> tensor = HostTensor::allocate(shape);
    if (!tensor)
      return tensor.error();
    std::memset(tensor->data(), 0xff, tensor->bytes()); // NaN, and page numbers that do not exist
    result.views.push_back(view.at(tensor->data()));
    result.tensors.emplace_back(name, std::move(*tensor));
    return &result.tensors.back().second;
  }

  Status addIntegers(const char *name, const std::vector<int32_t> &values,
                     const std::vector<int64_t> &extents) {
    Tensor shape = rowMajor(ElementType::i32, extents);
    Result<HostTensor *> tensor = add(name, shape, shape);
    if (!tensor)
      return tensor.error();
    std::memcpy((*tensor)->data(), values.data(), values.size() * sizeof(int32_t));
    return Status::success();
  }

  /// Adds a tensor [tokens, heads, dim], or [B, Sq, heads, dim] without --ragged.
  Status addQueries(const char *name, ElementType type, int64_t dim) {
    Tensor shape = options.ragged
                       ? Tensor::bshd(nullptr, type, 1, problem.H, tokens, dim)
                       : Tensor::bshd(nullptr, type, problem.B, problem.H, problem.Sq, dim);
    Tensor memory =
        Tensor::contiguous(nullptr, type, {std::max<int64_t>(tokens, 1), problem.H, dim});
    return statusOf(add(name, memory, shape));
  }

  Status addLse() {
    Tensor shape =
        options.ragged
            ? Tensor::contiguous(nullptr, ElementType::f32, {1, problem.H, tokens})
            : Tensor::contiguous(nullptr, ElementType::f32, {problem.B, problem.H, problem.Sq});
    return statusOf(add("lse", shape, shape));
  }

  void copyQueries() {
    const Tensor &view = result.views[0];
    for (size_t b = 0; b < result.sequences.size(); ++b)
      for (int64_t h = 0; h < problem.H; ++h)
        for (int64_t i = 0; i < result.sequences[b].queries; ++i)
          std::memcpy(options.ragged ? rowOf(view, 0, h, result.sequences[b].start + i)
                                     : rowOf(view, int64_t(b), h, i),
                      rowOf(problem.qView, int64_t(b), h, i),
                      size_t(problem.Dqk) * elementSize(problem.type));
  }

  Status addTokens(const char *name, const Tensor &from, const std::vector<int32_t> &starts) {
    int64_t dim = from.extents[3], heads = from.extents[1];
    Tensor view = Tensor::bshd(nullptr, keyType(), 1, heads, starts.back(), dim);
    Result<HostTensor *> tensor = add(
        name,
        Tensor::contiguous(nullptr, keyType(), {std::max<int64_t>(starts.back(), 1), heads, dim}),
        view);
    if (!tensor)
      return tensor.error();
    copyKeys(from, [&](int64_t b, int64_t h, int64_t j) {
      return rowOf(result.views.back(), 0, h, starts[b] + j);
    });
    return Status::success();
  }

  Status addPages(const char *name, const Tensor &from) {
    int64_t dim = from.extents[3], heads = from.extents[1], each = pagesOfSequence();
    int64_t pages = pageCount();
    if (table.empty()) {
      std::vector<int32_t> order(pages);
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random);
      table.assign(size_t(problem.B * each), std::numeric_limits<int32_t>::max());
      for (int64_t b = 0; b < problem.B; ++b)
        for (int64_t i = 0; i * options.page < result.sequences[b].keys; ++i)
          table[b * each + i] = order[b * each + i];
    }
    Tensor shape = Tensor::bshd(nullptr, keyType(), pages, heads, options.page, dim);
    Result<HostTensor *> tensor =
        add(name, Tensor::contiguous(nullptr, keyType(), {pages, options.page, heads, dim}), shape);
    if (!tensor)
      return tensor.error();
    copyKeys(from, [&](int64_t b, int64_t h, int64_t j) {
      return rowOf(result.views.back(), table[b * each + j / options.page], h, j % options.page);
    });
    return Status::success();
  }

  template <typename Place> void copyKeys(const Tensor &from, Place place) {
    for (int64_t b = 0; b < problem.B; ++b)
      for (int64_t h = 0; h < from.extents[1]; ++h)
        for (int64_t j = 0; j < result.sequences[b].keys; ++j)
          if (isNarrow())
            narrowRow(place(b, h, j), rowOf(from, b, h, j), from.extents[3], scaleOf(b, h, j));
          else
            std::memcpy(place(b, h, j), rowOf(from, b, h, j),
                        size_t(from.extents[3]) * elementSize(from.type));
  }

  /// A power of two, so that a narrow value times its scale is exact in the problem's type.
  float scaleOf(int64_t page, int64_t h) const { return std::ldexp(1.0f, int((page + h) % 3) - 5); }
  float scaleOf(int64_t b, int64_t h, int64_t j) const {
    return scaleOf(isByPage() ? table[b * pagesOfSequence() + j / options.page] : 0, h);
  }

  /// Narrows a row to `bytes`. The row itself gets the narrowed values, because the reference reads
  /// it.
  void narrowRow(char *bytes, char *row, int64_t columns, float scale) const {
    for (int64_t x = 0; x < columns; ++x) {
      uint8_t byte = floatToE4m3(numberAt(row, problem.type, x) / scale);
      bytes[x] = char(byte);
      setNumber(row, problem.type, x, e4m3ToFloat(byte) * scale);
    }
  }

  /// Adds the scales of each head, or of each head of each page of a sequence.
  Status addScales(const char *name, int64_t heads) {
    std::vector<int64_t> extents(1, heads);
    if (isByPage())
      extents.insert(extents.begin(), pageCount());
    Tensor shape = rowMajor(ElementType::f32, extents);
    Result<HostTensor *> tensor = add(name, shape, shape);
    if (!tensor)
      return tensor.error();
    float *scales = static_cast<float *>((*tensor)->data());
    for (int64_t h = 0; h < heads; ++h) {
      if (!isByPage())
        scales[h] = scaleOf(0, h);
      for (int64_t i = 0; isByPage() && i < int64_t(table.size()); ++i)
        if (table[i] < pageCount())
          scales[table[i] * heads + h] = scaleOf(table[i], h);
    }
    return Status::success();
  }
};

/// `rows` rows of batch b of `view`, from row `first` on, as a view with one batch.
Tensor partOf(Tensor view, int64_t b, int64_t first, int64_t rows) {
  int64_t element = b * view.strides[0] + first * view.strides[2];
  view.data = static_cast<char *>(view.data) + element * int64_t(elementSize(view.type));
  view.extents[0] = 1;
  view.extents[2] = rows;
  return view;
}

/// The captured tensor as sequence b sees it: of its batch, with its lengths.
Tensor captureOf(Tensor view, const VariantParameter &parameter, int64_t b,
                 const SequenceProblem::Sequence &sequence) {
  for (size_t axis = 0; axis < parameter.extents.size(); ++axis) {
    const VariantExtent &extent = parameter.extents[axis];
    if (extent.name == "B") {
      view.data =
          static_cast<char *>(view.data) + b * view.strides[axis] * int64_t(elementSize(view.type));
      view.extents[axis] = 1;
    } else if (extent.name == "Sk" || extent.name == "Sq") {
      int64_t length = extent.name == "Sk" ? sequence.keys : sequence.offset + sequence.queries;
      view.extents[axis] = std::max<int64_t>(extent.coefficient * length + extent.offset, 0);
    }
  }
  return view;
}

/// Removes the rows before `first` from a reference.
void dropRows(Reference &reference, int64_t first) {
  auto drop = [&](std::vector<double> &values, int64_t width) {
    std::vector<double> kept;
    for (int64_t h = 0; h < reference.H; ++h)
      kept.insert(kept.end(), values.begin() + (h * reference.Sq + first) * width,
                  values.begin() + (h + 1) * reference.Sq * width);
    values = std::move(kept);
  };
  for (std::vector<double> *each : {&reference.ref, &reference.base, &reference.magnitude})
    drop(*each, reference.Dv);
  for (std::vector<double> *each : {&reference.lse, &reference.termNorm})
    drop(*each, 1);
  reference.Sq -= first;
}

} // namespace

LaunchArguments SequenceProblem::arguments(const Problem &problem) const {
  LaunchArguments arguments = problem.hostArguments();
  Tensor *const members[] = {&arguments.q, &arguments.k, &arguments.v, &arguments.o,
                             &arguments.lse};
  for (size_t i = 0; i < tensors.size(); ++i)
    if (i < std::size(members))
      *members[i] = views[i];
    else
      arguments.tensors.push_back({tensors[i].first, views[i]});
  if (std::ranges::find(bindings, "values=keys") != bindings.end())
    arguments.v = {};
  arguments.extents = {{"B", problem.B}, {"Sq", problem.Sq}, {"Sk", problem.Sk}};
  return arguments;
}

double SequenceProblem::pairs(const Problem &problem) const {
  double pairs = 0;
  for (const Sequence &each : sequences)
    pairs += double(problem.H) * double(each.queries) * double(each.keys);
  return pairs;
}

Result<Comparison> SequenceProblem::check(KernelOptions options, const Problem &problem,
                                          const VariantInfo &variant, int threads,
                                          int64_t &keptPairs) const {
  options.algorithm = "forward";
  options.bindings.clear();
  std::optional<Comparison> worst;
  keptPairs = 0;
  bool isRagged = views[0].extents[0] == 1 && problem.B != 1;
  for (size_t index = 0; index < sequences.size(); ++index) {
    const Sequence &each = sequences[index];
    int64_t b = int64_t(index), first = isRagged ? each.start : 0;
    if (each.queries == 0)
      continue;
    // Queries before the first one are rows of zeros in the reference; their results are dropped.
    // With a negative offset there are no such rows.
    int64_t before = std::max<int64_t>(each.offset, 0);
    LaunchArguments arguments = problem.hostArguments();
    Result<HostTensor> q = HostTensor::allocate(Tensor::contiguous(
        nullptr, problem.type, {1, problem.H, before + each.queries, problem.Dqk}));
    if (!q)
      return q.error();
    arguments.q = q->view();
    for (int64_t h = 0; h < problem.H; ++h)
      for (int64_t i = 0; i < each.queries; ++i)
        std::memcpy(rowOf(arguments.q, 0, h, before + i), rowOf(problem.qView, b, h, i),
                    size_t(problem.Dqk) * elementSize(problem.type));
    arguments.k = partOf(problem.kView, b, 0, each.keys);
    arguments.v = partOf(problem.vView, b, 0, each.keys);
    for (CaptureArgument &capture : arguments.captures)
      for (const VariantParameter &parameter : variant.parameters)
        if (parameter.name == capture.name)
          capture.tensor = captureOf(capture.tensor, parameter, b, each);
    Result<Reference> reference = hostReference(options, arguments, threads);
    if (!reference)
      return reference.error();
    // The count includes pairs of the rows of zeros, so it is not used.
    keptPairs = before > 0 || keptPairs < 0 ? -1 : keptPairs + reference->keptPairs;
    dropRows(*reference, before);
    Tensor o = partOf(views[3], isRagged ? 0 : b, first, each.queries);
    Tensor lse = partOf(views[4], isRagged ? 0 : b, first, each.queries);
    Result<Comparison> comparison = compare(*reference, o, lse);
    if (!comparison)
      return comparison.error();
    comparison->worst[0] = comparison->worstRow[0] = comparison->worstLse[0] = b;
    if (!comparison->passed)
      comparison->failure = fmt::format("sequence {} of {} queries and {} keys: {}", b,
                                        each.queries, each.keys, comparison->failure);
    if (!worst ||
        (worst->passed && (!comparison->passed || comparison->maxError > worst->maxError)))
      worst = std::move(*comparison);
    if (!worst->passed)
      break;
  }
  if (!worst)
    return Error(Code::invalidArgument, "there is no query to check: make the length longer");
  return std::move(*worst);
}

Result<SequenceProblem> makeSequences(const RunOptions &options, const Problem &problem,
                                      const VariantInfo &variant) {
  auto invalid = [](const std::string &sentence) { return Error(Code::invalidArgument, sentence); };
  if (problem.B == 0 || problem.Sq == 0)
    return invalid("there are no sequences: give --batch and --length of at least 1");
  if (options.positions == "end" && problem.Sq > problem.Sk)
    return invalid(fmt::format("with --positions end a sequence has no more queries than keys, and "
                               "--length is {}, --kv-length {}: make --kv-length at least as long",
                               problem.Sq, problem.Sk));
  for (const VariantParameter &parameter : variant.parameters)
    if (options.positions == "given" && problem.Sq > problem.Sk &&
        std::ranges::count(parameter.extents, "Sq", &VariantExtent::name))
      return invalid(
          fmt::format("'{}' has the extent Sq, which counts keys with --positions given, "
                      "and --length is {}, --kv-length {}: make --kv-length at least as "
                      "long",
                      parameter.name, problem.Sq, problem.Sk));
  return Builder(options, problem).build();
}

Result<DeviceSequences> DeviceSequences::create(const Context &context,
                                                const SequenceProblem &host) {
  DeviceSequences device;
  for (const auto &[name, tensor] : host.tensors) {
    Result<Buffer> buffer = context.allocate(tensor.bytes());
    if (!buffer)
      return buffer.error();
    if (Status status = context.copyToDevice(*buffer, tensor.data(), tensor.bytes()); !status)
      return status.error();
    device.buffers.push_back(std::move(*buffer));
  }
  return device;
}

void DeviceSequences::place(LaunchArguments &arguments) const {
  Tensor *const members[] = {&arguments.q, &arguments.k, &arguments.v, &arguments.o,
                             &arguments.lse};
  constexpr size_t count = std::size(members);
  for (size_t i = 0; i < buffers.size(); ++i) {
    Tensor &tensor = i < count ? *members[i] : arguments.tensors[i - count].tensor;
    if (tensor.rank > 0) // otherwise the kernel does not take this tensor
      tensor = tensor.at(buffers[i].data());
  }
}

Status DeviceSequences::copyResults(const Context &context, SequenceProblem &host) const {
  if (Status status = context.synchronize(); !status)
    return status;
  for (size_t i : {3, 4})
    if (Status status = context.copyToHost(host.tensors[i].second.data(), buffers[i],
                                           host.tensors[i].second.bytes());
        !status)
      return status;
  return Status::success();
}

} // namespace tesela::tool
