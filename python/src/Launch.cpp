//===- Launch.cpp - Parts of every launch -----------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "KernelObject.h"

namespace tesela::python {

bool Values::read(const Kernel &kernel, PyObject *values, bool areAllNeeded) {
  if (!PyTuple_Check(values) || PyTuple_Size(values) != kernel.slotCount) {
    PyErr_Format(PyExc_TypeError, "the values must be a tuple of %zd, not %R", kernel.slotCount,
                 values);
    return false;
  }
  if (kernel.slotCount + ofTemplate > most && !reserve(kernel.slotCount + ofTemplate))
    return false;
  for (Py_ssize_t i = 0; i < kernel.slotCount; ++i) {
    PyObject *value = PyTuple_GetItem(values, i);
    if ((value != Py_None || areAllNeeded) && !readOne(kernel.slots[i], value))
      return false;
  }
  return true;
}

bool Values::reserve(Py_ssize_t wanted) {
  many.reset(parameters = new (std::nothrow) tesela_parameter[wanted]);
  manyTensors.reset(tensors = new (std::nothrow) tesela_tensor[wanted]);
  manyHolders.reset(holders = new (std::nothrow) Owned[wanted]);
  most = wanted;
  if (many && manyTensors && manyHolders)
    return true;
  PyErr_NoMemory();
  return false;
}

bool Values::readOne(const Slot &slot, PyObject *value) {
  tesela_parameter &parameter = parameters[count];
  std::memset(static_cast<void *>(&parameter), 0, sizeof parameter);
  parameter.name = slot.name;
  if (value == Py_None && slot.isCapture && slot.hasDefault) { // a tensor without elements
    tensors[count] = sized<tesela_tensor>();
    tensors[count].type = TESELA_I32;
    tensors[count].rank = 1;
    parameter.tensor = &tensors[count];
  } else if (value == Py_None) {
    if (!slot.hasDefault)
      raise(TESELA_INVALID_ARGUMENT,
            slot.isCapture ? "the captured tensor '%s' is missing: pass it by its name"
                           : "the parameter '%s' is missing and has no default: pass it",
            slot.name);
    parameter.scalar = slot.standard;
    if (!slot.hasDefault)
      return false;
  } else if (slot.isCapture) {
    if (!readTensor(value, slot.name, tensors[count], holders[count]))
      return false;
    parameter.tensor = &tensors[count];
  } else {
    parameter.scalar = PyFloat_AsDouble(value);
    if (parameter.scalar == -1 && PyErr_Occurred()) {
      PyErr_Clear();
      raise(TESELA_INVALID_ARGUMENT,
            "the parameter '%s' is of the type %R, it must be a number: the variant declares a "
            "scalar",
            slot.name, Py_TYPE(value));
      return false;
    }
  }
  ++count;
  return true;
}

bool Values::add(const char *name, PyObject *value) {
  if (Py_ssize_t(count) >= most) {
    PyErr_Format(PyExc_TypeError, "the launch takes %zd parameters of the template's", ofTemplate);
    return false;
  }
  Slot slot{};
  slot.name = name;
  slot.isCapture = !PyFloat_Check(value) && !PyLong_Check(value);
  return readOne(slot, value);
}

bool readScale(PyObject *scale, tesela_tensor_arguments &given) {
  if (scale == Py_None)
    return true;
  given.scale = PyFloat_AsDouble(scale);
  if (given.scale == -1 && PyErr_Occurred()) {
    if (PyErr_ExceptionMatches(PyExc_TypeError)) { // Python's own message does not name the scale
      PyErr_Clear();
      raise(TESELA_INVALID_ARGUMENT,
            "the scale is of the type %R, it must be a number, or None for 1 / sqrt(Dqk)",
            Py_TYPE(scale));
    }
    return false;
  }
  if (given.scale == 0)
    raise(TESELA_INVALID_ARGUMENT,
          "the scale is 0, it must be positive: for equal weights pass q of zeros");
  return given.scale != 0;
}

} // namespace tesela::python
