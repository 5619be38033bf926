//===- CApiTensor.cpp - tesela/c/tensor.h ----------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "api/CApi.h"
#include "api/DLPackAbi.h"
#include "launch/TensorSpan.h"

#include <bit>
#include <optional>

using namespace tesela;
using namespace tesela::c;

static_assert(TESELA_MAX_RANK == Tensor::maxRank);
static_assert(int(TESELA_MEMORY_HOST) == int(dlpack::cpu) &&
              int(TESELA_MEMORY_CUDA) == int(dlpack::cuda) &&
              int(TESELA_MEMORY_PINNED) == int(dlpack::cudaHost) &&
              int(TESELA_MEMORY_MANAGED) == int(dlpack::cudaManaged));

namespace {

Status checkRank(int rank) {
  if (rank >= 0 && rank <= TESELA_MAX_RANK)
    return Status::success();
  return invalid("a tensor has rank " + std::to_string(rank) + ", it must lie in [0, " +
                 std::to_string(TESELA_MAX_RANK) + "]");
}

/// Sets the strides of a contiguous tensor.
Status setCompactStrides(tesela_tensor &tensor) {
  bool isEmpty = std::find(tensor.extents, tensor.extents + tensor.rank, 0) !=
                 tensor.extents + tensor.rank; // an empty tensor may have any strides
  int64_t stride = 1;
  for (int axis = tensor.rank - 1; axis >= 0; --axis) {
    tensor.strides[axis] = stride;
    if (!isEmpty && __builtin_mul_overflow(stride, tensor.extents[axis], &stride))
      return invalid("a tensor has more than 2^63 - 1 elements: pass smaller extents");
  }
  return Status::success();
}

bool isOf(const Device &device, const tesela_tensor &tensor) {
  switch (tensor.memory) {
  case TESELA_MEMORY_UNKNOWN:
  case TESELA_MEMORY_MANAGED:
    return true;
  case TESELA_MEMORY_HOST:
  case TESELA_MEMORY_PINNED:
    return device.kind == Device::Kind::host;
  case TESELA_MEMORY_CUDA:
    return device.kind == Device::Kind::cuda && device.index == tensor.device_index;
  }
  return false;
}

std::string placeOf(const tesela_tensor &tensor) {
  switch (tensor.memory) {
  case TESELA_MEMORY_HOST:
    return "the host's memory";
  case TESELA_MEMORY_PINNED:
    return "the host's pinned memory";
  case TESELA_MEMORY_CUDA:
    return "the memory of cuda:" + std::to_string(tensor.device_index);
  default:
    return "memory of kind " + std::to_string(int(tensor.memory)) +
           ", which is not a value of tesela_memory";
  }
}

std::string nameOf(const Device &device) {
  return device.kind == Device::Kind::host ? "the host" : "cuda:" + std::to_string(device.index);
}

/// "i64", "f64", "complex of 64 bits", "a type of code 12 and 8 bits".
std::string describe(dlpack::DataType type) {
  std::string bits = std::to_string(type.bits);
  std::string text;
  switch (type.code) {
  case dlpack::signedInteger:
    text = "i" + bits;
    break;
  case dlpack::unsignedInteger:
    text = "u" + bits;
    break;
  case dlpack::ieeeFloat:
    text = "f" + bits;
    break;
  case dlpack::bfloat:
    text = "bf" + bits;
    break;
  case dlpack::complex:
    text = "complex of " + bits + " bits";
    break;
  case dlpack::boolean:
    text = "bool of " + bits + " bits";
    break;
  default:
    text = "a type of code " + std::to_string(type.code) + " and " + bits + " bits";
  }
  return type.lanes == 1 ? text : text + " in vectors of " + std::to_string(type.lanes);
}

std::optional<tesela_type> typeOf(dlpack::DataType type) {
  struct Known {
    uint8_t code, bits;
    tesela_type type;
  };
  // Libraries without kDLBool pass bool as u8.
  constexpr Known known[] = {
      {dlpack::ieeeFloat, 32, TESELA_F32},     {dlpack::ieeeFloat, 16, TESELA_F16},
      {dlpack::bfloat, 16, TESELA_BF16},       {dlpack::signedInteger, 32, TESELA_I32},
      {dlpack::boolean, 8, TESELA_BOOL},       {dlpack::unsignedInteger, 8, TESELA_BOOL},
      {dlpack::signedInteger, 64, TESELA_I64}, {dlpack::float8E4m3, 8, TESELA_E4M3}};
  for (const Known &each : known)
    if (each.code == type.code && each.bits == type.bits && type.lanes == 1)
      return each.type;
  return std::nullopt;
}

Status convert(const dlpack::Tensor &from, bool readOnly, tesela_tensor *to) {
  auto result = zeroed<tesela_tensor>();
  std::optional<tesela_type> type = typeOf(from.type);
  if (!type)
    return Error(Code::unsupported,
                 "the DLPack tensor's elements are " + describe(from.type) +
                     ", they must be f32, f16, bf16, e4m3, i32, i64, bool or u8: convert "
                     "them");
  result.type = *type;
  switch (from.deviceType) {
  case dlpack::cpu:
  case dlpack::cuda:
  case dlpack::cudaHost:
  case dlpack::cudaManaged:
    break;
  default:
    return Error(Code::unsupported,
                 "the DLPack tensor lies on a device of the type " +
                     std::to_string(from.deviceType) +
                     ", it must be kDLCPU, kDLCUDA, kDLCUDAHost or kDLCUDAManaged: copy it");
  }
  result.memory = tesela_memory(from.deviceType);
  result.device_index = from.deviceIndex;
  result.read_only = readOnly;
  result.rank = from.rank;
  if (Status status = checkRank(from.rank); !status)
    return status;
  if (from.rank > 0 && !from.shape)
    return invalid("the DLPack tensor has rank " + std::to_string(from.rank) +
                   " and its shape is NULL");
  for (int axis = 0; axis < from.rank; ++axis) {
    result.extents[axis] = from.shape[axis];
    if (from.strides)
      result.strides[axis] = from.strides[axis];
  }
  if (!from.strides)
    if (Status status = setCompactStrides(result); !status)
      return status;
  if (from.data)
    result.data = static_cast<char *>(from.data) + from.byteOffset;
  return writeSized(result, to, "tesela_tensor");
}

} // namespace

namespace tesela::c {

static_assert(std::endian::native == std::endian::little);

Status readLowWords(tesela_type &type, int rank, int64_t *strides) {
  if (type != TESELA_I64)
    return Status::success();
  type = TESELA_I32;
  for (int axis = 0; axis < rank; ++axis) {
    int64_t stride = strides[axis];
    if (__builtin_mul_overflow(stride, int64_t(2), &strides[axis]))
      return invalid("the stride of axis " + std::to_string(axis) + " is " +
                     std::to_string(stride) +
                     " elements of i64, it must be less than 2^62: pass strides in elements");
  }
  return Status::success();
}

Status readTensor(const tesela_tensor *from, const TensorRole &role, const Device &device,
                  Tensor &to) {
  tesela_tensor given;
  if (Status status = readSized(from, given, "tesela_tensor"); !status)
    return status.error().within(role.text());
  if (Status status = checkRank(given.rank); !status)
    return status.error().within(role.text());
  if (role.isCapture)
    if (Status status = readLowWords(given.type, given.rank, given.strides); !status)
      return status.error().within(role.text());
  Result<ElementType> type = elementType(given.type);
  if (!type)
    return type.error().within(role.text());
  if (!isOf(device, given))
    return invalid(role.text() + " is in " + placeOf(given) + ", but it is used on " +
                   nameOf(device) + ": copy it there");
  to.data = given.data;
  to.readOnly = given.read_only != 0;
  to.type = *type;
  to.rank = given.rank;
  std::copy_n(given.extents, TESELA_MAX_RANK, to.extents.begin());
  std::copy_n(given.strides, TESELA_MAX_RANK, to.strides.begin());
  return Status::success();
}

Status readHostTensor(const tesela_tensor *from, const TensorRole &role, Tensor &to) {
  if (Status status = readTensor(from, role, Device(), to); !status)
    return status;
  std::string is = role.text() + " is " + tesela::describe(to);
  for (int axis = 0; axis < to.rank; ++axis)
    if (to.extents[axis] < 0)
      return invalid(is + ", its extents must not be negative");
  if (hasNoElements(to))
    return Status::success();
  if (!to.data)
    return invalid(is + " and has no address: pass it in the host's memory");
  return checkSpan(is, to);
}

} // namespace tesela::c

tesela_code tesela_tensor_contiguous(void *data, tesela_type type, int rank, const int64_t *extents,
                                     tesela_tensor *tensor) {
  return guarded([&]() -> Status {
    if (Status status = checkRank(rank); !status)
      return status;
    if (rank > 0 && !extents)
      return noArray("extents", "rank", rank);
    Result<ElementType> known = elementType(type == TESELA_I64 ? TESELA_I32 : type);
    if (!known)
      return known.error();
    auto result = zeroed<tesela_tensor>();
    result.data = data;
    result.type = type;
    result.rank = rank;
    std::copy_n(extents, rank, result.extents);
    if (Status status = setCompactStrides(result); !status)
      return status;
    return writeSized(result, tensor, "tesela_tensor");
  });
}

tesela_code tesela_tensor_bshd(void *data, tesela_type type, int64_t batch, int64_t heads,
                               int64_t length, int64_t head_dim, tesela_tensor *tensor) {
  return guarded([&]() -> Status {
    if (Result<ElementType> known = elementType(type); !known)
      return known.error();
    Tensor view = Tensor::bshd(data, ElementType(type), batch, heads, length, head_dim);
    auto result = zeroed<tesela_tensor>();
    result.data = data;
    result.type = type;
    result.rank = view.rank;
    std::copy_n(view.extents.begin(), view.rank, result.extents);
    std::copy_n(view.strides.begin(), view.rank, result.strides);
    return writeSized(result, tensor, "tesela_tensor");
  });
}

tesela_code tesela_tensor_from_dl_tensor(const void *dl_tensor, tesela_tensor *tensor) {
  return guarded([&]() -> Status {
    if (!dl_tensor)
      return invalid("dl_tensor is NULL: pass a DLTensor");
    return convert(*static_cast<const dlpack::Tensor *>(dl_tensor), false, tensor);
  });
}

tesela_code tesela_tensor_from_dl_managed_tensor(const struct DLManagedTensor *managed,
                                                 tesela_tensor *tensor) {
  return guarded([&]() -> Status {
    if (!managed)
      return invalid("managed is NULL: pass a DLManagedTensor");
    return convert(reinterpret_cast<const dlpack::ManagedTensor *>(managed)->tensor, false, tensor);
  });
}

tesela_code
tesela_tensor_from_dl_managed_tensor_versioned(const struct DLManagedTensorVersioned *managed,
                                               tesela_tensor *tensor) {
  return guarded([&]() -> Status {
    if (!managed)
      return invalid("managed is NULL: pass a DLManagedTensorVersioned");
    const auto &from = *reinterpret_cast<const dlpack::ManagedTensorVersioned *>(managed);
    if (from.major != dlpack::majorVersion)
      return Error(Code::unsupported, "the tensor has DLPack version " +
                                          std::to_string(from.major) + "." +
                                          std::to_string(from.minor) +
                                          ", Tesela supports 1.x: export it with version 1");
    return convert(from.tensor, (from.flags & dlpack::readOnlyFlag) != 0, tensor);
  });
}
