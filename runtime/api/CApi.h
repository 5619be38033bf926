//===- CApi.h - Shared by the files of the C API ----------------*- C++ -*-===//
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

/// Records a failure as this thread's last one.
tesela_code report(const Error &error) noexcept;
tesela_code report(Code code, const char *sentence) noexcept;

/// This thread's last failure. There must have been one.
Error lastFailure();

/// The number of failures of this thread.
uint64_t failureCount();

/// Runs `body`, which returns a Status. No exception leaves the C functions.
template <typename Body> tesela_code guarded(Body body) noexcept {
  Status status = caught(body);
  return status ? TESELA_OK : report(status.error());
}

Error invalid(const std::string &message);

/// "context is NULL: make one by tesela_context_create".
Error noHandle(const char *name, const char *maker);

/// "tensors is NULL, but tensor_count is 3: pass an array of that length, or set tensor_count to
/// 0".
Error noArray(const char *array, const char *count, size_t value);

/// A caller's milliseconds, limited to a century, so that adding them to a time point does not
/// overflow.
inline std::chrono::milliseconds bounded(int64_t milliseconds) {
  return std::chrono::milliseconds(
      std::clamp<int64_t>(milliseconds, 0, int64_t(100) * 365 * 24 * 3600 * 1000));
}

/// Checks where a handle is to be written, and sets it to NULL until the handle is made.
template <typename Handle> Status checkPlace(Handle **place, const char *name) {
  if (!place)
    return invalid(std::string(name) + " is NULL: pass the address of a pointer");
  *place = nullptr;
  return Status::success();
}

/// Checks the size that a caller has set.
Status checkSize(const void *structure, const char *name);

/// Fails if a newer caller has set fields that this library does not know.
Status checkUnknownFields(const void *structure, size_t known, const char *name);

/// Copies a caller's structure, which may be older and shorter than this library's. Missing fields
/// become zero.
template <typename T> Status readSized(const T *from, T &to, const char *name) {
  if (Status status = checkSize(from, name); !status)
    return status;
  if (from->size == sizeof to) { // the usual case; a launch reads several structures
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

/// A structure of zeros, also in its padding, because all of it is copied.
template <typename T> T zeroed() {
  T value;
  std::memset(static_cast<void *>(&value), 0, sizeof value);
  return value;
}

/// Writes `known` to the caller's structure, up to that one's size, which stays.
template <typename T> Status writeSized(const T &known, T *to, const char *name) {
  if (Status status = checkSize(to, name); !status)
    return status;
  size_t size = to->size;
  std::memcpy(static_cast<void *>(to), &known, std::min(size, sizeof known));
  to->size = size;
  return Status::success();
}

/// Fails unless `index` is below `count`.
Status checkIndex(size_t index, size_t count, const char *what);

inline std::string textOr(const char *value, const char *otherwise = "") {
  return value ? value : otherwise;
}

Result<ElementType> elementType(int type);

std::vector<tesela_stage> stagesOf(const std::vector<std::pair<std::string, double>> &stages);

/// The structure's texts point into `device`.
tesela_device_info deviceInfo(const Device &device);

/// Parameters, with the memory that their C structures point to.
class ParameterList {
public:
  explicit ParameterList(std::vector<VariantParameter> parameters);
  size_t count() const { return parameters.size(); }
  Status describe(size_t index, tesela_parameter_info *info) const;

private:
  std::vector<VariantParameter> parameters;
  std::vector<std::vector<tesela_extent>> extents; ///< in the order of the parameters
};

ProblemSizes problemSizes(const tesela_sizes &sizes);

/// Converts the options of a kernel.
Result<KernelOptions> kernelOptions(const tesela_kernel_options *options);

/// A handle of `kernel`, which was loaded on `device`.
tesela_kernel *makeKernelHandle(Kernel kernel, const Device &device);

/// The role of a tensor in a call, for messages: "q", "the captured tensor 'slope'".
struct TensorRole {
  const char *name;
  bool isCapture = false;

  std::string text() const {
    return isCapture ? std::string("the captured tensor '") + name + "'" : name;
  }
};

/// Kernels read i32. For a captured tensor of i64 this describes the low words, which come first
/// and lie twice as far apart. Other tensors stay as they are.
Status readLowWords(tesela_type &type, int rank, int64_t *strides);

/// Converts a caller's view of memory of `device`.
Status readTensor(const tesela_tensor *from, const TensorRole &role, const Device &device,
                  Tensor &to);

/// Converts a view of host memory whose elements are accessed at once.
Status readHostTensor(const tesela_tensor *from, const TensorRole &role, Tensor &to);

} // namespace tesela::c

// Each handle of the C API contains the C++ one.
struct tesela_context {
  tesela::Context context;
};

struct tesela_bytes {
  std::string data;
};

#endif // TESELA_API_CAPI_H
