//===- HostValues.cpp - A launch's parameters in host memory -----------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "HostValues.h"

namespace tesela::python {

/// A captured tensor for the C++ API. Of i64 it reads the low words, as launches do.
static bool readCapture(PyObject *value, const char *name, std::vector<Owned> &captured,
                        Tensor &to) {
  tesela_tensor from;
  Owned holder;
  if (!readTensor(value, name, from, holder))
    return false;
  if (from.memory == TESELA_MEMORY_CUDA) {
    raise(TESELA_INVALID_ARGUMENT,
          "%s is in a GPU's memory, it must be in the host's: copy it there", name);
    return false;
  }
  bool isWide = from.type == TESELA_I64;
  to.data = from.data;
  to.type = isWide ? ElementType::i32 : ElementType(from.type);
  to.rank = from.rank;
  for (int axis = 0; axis < from.rank; ++axis) {
    to.extents[axis] = from.extents[axis];
    to.strides[axis] = from.strides[axis] * (isWide ? 2 : 1);
  }
  captured.push_back(std::move(holder));
  captured.emplace_back(Py_NewRef(value));
  return true;
}

bool readHostValues(const VariantObject &variant, PyObject *values, std::vector<Owned> &captured,
                    ExplainArguments &arguments) {
  Py_ssize_t slot = 0;
  for (size_t i = 0; i < tesela_variant_parameter_count(variant.variant); ++i) {
    auto info = sized<tesela_parameter_info>();
    if (tesela_variant_parameter(variant.variant, i, &info) != TESELA_OK)
      return raiseLast();
    if (info.is_constant)
      continue;
    PyObject *value = PyTuple_GetItem(values, slot++);
    if (!value)
      return false;
    if (value == Py_None) // the default is used; the library reports a missing value
      continue;
    if (info.is_capture) {
      Tensor tensor;
      if (!readCapture(value, info.name, captured, tensor))
        return false;
      arguments.captures.push_back({info.name, tensor});
      continue;
    }
    double scalar = PyFloat_AsDouble(value);
    if (scalar == -1 && PyErr_Occurred())
      return false;
    arguments.scalars.push_back({info.name, scalar});
  }
  return true;
}

PyObject *raiseError(const Error &error) {
  return raise(tesela_code(error.code()), "%s", error.message().c_str());
}

} // namespace tesela::python
