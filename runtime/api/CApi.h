//===- CApi.h - What the files of the C API share ---------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_API_CAPI_H
#define TESELA_API_CAPI_H

#include "system/Caught.h"
#include "tesela/Context.h"
#include "tesela/tesela.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

namespace tesela::c {

/// Keeps a failure as this thread's last one.
tesela_code report(const Error &error) noexcept;
tesela_code report(Code code, const char *sentence) noexcept;

/// This thread's last failure; only after one.
Error lastFailure();

/// How many failures this thread has seen.
uint64_t failureCount();

/// Runs `body`, which gives a Status; no exception passes the C boundary.
template <typename Body> tesela_code guarded(Body body) noexcept {
  Status status = caught(body);
  return status ? TESELA_OK : report(status.error());
}

Error invalid(const std::string &message);

/// "context is NULL: make one by tesela_context_create".
Error noHandle(const char *name, const char *maker);

/// A caller's milliseconds, a century at most: what std::chrono adds to a time point must not
/// overflow.
inline std::chrono::milliseconds bounded(int64_t milliseconds) {
  return std::chrono::milliseconds(
      std::clamp<int64_t>(milliseconds, 0, int64_t(100) * 365 * 24 * 3600 * 1000));
}

/// A handle's place in memory, which becomes NULL until the handle is made.
template <typename Handle> Status checkPlace(Handle **place, const char *name) {
  if (!place)
    return invalid(std::string(name) + " is NULL: pass the address of a pointer");
  *place = nullptr;
  return Status::success();
}

/// The size that a caller has set.
Status checkSize(const void *structure, const char *name);

/// Fails where a newer caller has set what this library does not know.
Status checkUnknownFields(const void *structure, size_t known, const char *name);

/// Copies a caller's structure, which may be older and shorter than this library's:
/// what it lacks reads as zero.
template <typename T> Status readSized(const T *from, T &to, const char *name) {
  if (Status status = checkSize(from, name); !status)
    return status;
  if (from->size == sizeof to) { // nearly always, and a launch reads several
    to = *from;
    return Status::success();
  }
  if (from->size > sizeof to)
    if (Status status = checkUnknownFields(from, sizeof to, name); !status)
      return status;
  std::memset(static_cast<void *>(&to), 0, sizeof to);
  std::memcpy(static_cast<void *>(&to), from, std::min(from->size, sizeof to));
  return Status::success();
}

/// A structure of zeros, its padding too: all of it is copied.
template <typename T> T zeroed() {
  T value;
  std::memset(static_cast<void *>(&value), 0, sizeof value);
  return value;
}

/// Writes `known` to the caller's structure, as far as that goes; its size stays.
template <typename T> Status writeSized(const T &known, T *to, const char *name) {
  if (Status status = checkSize(to, name); !status)
    return status;
  size_t size = to->size;
  std::memcpy(static_cast<void *>(to), &known, std::min(size, sizeof known));
  to->size = size;
  return Status::success();
}

/// Fails where there is no item `index` among `count`.
Status checkIndex(size_t index, size_t count, const char *what);

inline std::string textOr(const char *value, const char *otherwise = "") {
  return value ? value : otherwise;
}

Result<ElementType> elementType(int type);

std::vector<tesela_stage> stagesOf(const std::vector<std::pair<std::string, double>> &stages);

/// The structure's texts are those of `device`.
tesela_device_info deviceInfo(const Device &device);

/// Parameters with what their C structures point to.
class ParameterList {
public:
  explicit ParameterList(std::vector<VariantParameter> parameters);
  size_t count() const { return parameters.size(); }
  Status describe(size_t index, tesela_parameter_info *info) const;

private:
  std::vector<VariantParameter> parameters;
  std::vector<std::vector<tesela_extent>> extents; ///< by parameter
};

ProblemSizes problemSizes(const tesela_sizes &sizes);

/// The options that say what a kernel is.
Result<KernelOptions> kernelOptions(const tesela_kernel_options *options);

/// A handle of `kernel`, which is loaded on `device`.
tesela_kernel *makeKernelHandle(Kernel kernel, const Device &device);

/// What a tensor is to a call: "q", "the captured tensor 'slope'". Made a text only for messages.
struct TensorRole {
  const char *name;
  bool isCapture = false;
  bool isWritten = false;

  std::string text() const {
    return isCapture ? std::string("the captured tensor '") + name + "'" : name;
  }
};

/// Kernels read i32: of a captured tensor of i64 the low words, which lie first and twice as far
/// apart. Anything else stays as it is.
Status readLowWords(tesela_type &type, int rank, int64_t *strides);

/// A view of the caller's, in the memory of `device`.
Status readTensor(const tesela_tensor *from, const TensorRole &role, const Device &device,
                  Tensor &to);

/// One in the host's memory, whose elements are read or written at once.
Status readHostTensor(const tesela_tensor *from, const TensorRole &role, Tensor &to);

} // namespace tesela::c

// The handles of the C API hold the C++ ones.
struct tesela_context {
  tesela::Context context;
};

struct tesela_bytes {
  std::string data;
};

#endif // TESELA_API_CAPI_H
