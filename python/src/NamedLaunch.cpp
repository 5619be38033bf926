//===- NamedLaunch.cpp - A launch with named tensors -------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// For templates other than attention of dense tensors: a launch has the tensors that the template
// declares. q, k, v, o, o_parts, k_new and v_new are views [batch, heads, length, head_dim]. A
// Python tensor [tokens, heads, head_dim] becomes such a view with one batch.
//
//===----------------------------------------------------------------------===//
#include "KernelObject.h"

#include <algorithm>
#include <string_view>

namespace tesela::python {

namespace {

/// Inserts an axis of extent 1 before the first axis.
void addBatch(tesela_tensor &tensor) {
  for (int axis = tensor.rank; axis > 0; --axis) {
    tensor.extents[axis] = tensor.extents[axis - 1];
    tensor.strides[axis] = tensor.strides[axis - 1];
  }
  tensor.extents[0] = 1;
  tensor.strides[0] = 0; // the stride of an extent of 1 is ignored
  ++tensor.rank;
}

class NamedLaunch {
public:
  NamedLaunch() : given(sized<tesela_tensor_arguments>()) {}

  bool readTensors(PyObject *names, PyObject *from, bool isBshd) {
    Py_ssize_t count = PyTuple_Size(names);
    if (count < 0 || PyTuple_Size(from) != count || count > most) {
      PyErr_Format(PyExc_TypeError, "the launch takes a tensor for each name, and %d at most",
                   most);
      return false;
    }
    for (Py_ssize_t i = 0; i < count; ++i) {
      const char *name = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(names, i), nullptr);
      PyObject *object = PyTuple_GetItem(from, i);
      if (!name)
        return false;
      if (object == Py_None) // it is left out
        continue;
      if (!readTensor(object, name, tensors[i], holders[i]))
        return false;
      place(name, tensors[i], isBshd);
    }
    given.tensors = named;
    return true;
  }

  bool readExtents(PyObject *from) {
    Py_ssize_t count = PyTuple_Size(from);
    if (count < 0 || count > mostExtents) {
      PyErr_Format(PyExc_TypeError, "a launch has %d extents at most", mostExtents);
      return false;
    }
    for (Py_ssize_t i = 0; i < count; ++i) {
      long long value;
      if (!PyArg_ParseTuple(PyTuple_GetItem(from, i), "sL", &extents[i].name, &value))
        return false;
      extents[i].value = value;
    }
    given.extents = extents;
    given.extent_count = size_t(count);
    return true;
  }

  bool readParameters(const Kernel &kernel, PyObject *ofVariant, PyObject *ofTemplate) {
    if (!values.read(kernel, ofVariant))
      return false;
    for (Py_ssize_t i = 0, count = PyTuple_Size(ofTemplate); i < count; ++i) {
      const char *name;
      PyObject *value;
      if (!PyArg_ParseTuple(PyTuple_GetItem(ofTemplate, i), "sO", &name, &value) ||
          !values.add(name, value))
        return false;
    }
    given.parameters = values.data();
    given.parameter_count = values.size();
    given.parameters_in_order = 1;
    return !PyErr_Occurred();
  }

  /// The length for which the schedule is chosen; 0: large.
  int64_t extentOf(std::string_view name, const tesela_tensor *tensor) const {
    for (size_t i = 0; i < given.extent_count; ++i)
      if (name == extents[i].name)
        return extents[i].value;
    return tensor && tensor->rank == 4 ? tensor->extents[2] : 0;
  }

  tesela_tensor_arguments given;

private:
  static constexpr int most = 16, mostExtents = 5;
  tesela_tensor tensors[most];
  Owned holders[most];
  tesela_named_tensor named[most];
  tesela_named_extent extents[mostExtents];
  Values values;

  void place(const char *text, tesela_tensor &tensor, bool isBshd) {
    std::string_view name = text;
    bool isOfRows = name == "lse", isNew = name == "k_new" || name == "v_new",
         isOfHeads = name == "o_parts" || isNew;
    const tesela_tensor **member = name == "q"   ? &given.q
                                   : name == "k" ? &given.k
                                   : name == "v" ? &given.v
                                   : name == "o" ? &given.o
                                   : isOfRows    ? &given.lse
                                                 : nullptr;
    if (tensor.rank == (isOfRows ? 2 : 3) && (member || isNew))
      addBatch(tensor);
    if (isBshd && !isOfRows && (member || isOfHeads))
      swapLengthAndHeads(tensor);
    if (member)
      *member = &tensor;
    else
      named[given.tensor_count++] = {text, &tensor};
  }
};

} // namespace

PyObject *launchNamed(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
  if (count != 9)
    return PyErr_Format(PyExc_TypeError, "launch_named takes 9 arguments, not %zd", count);
  auto [names, tensors, scale, values, scalars, extents, bshd, streamOf, allocate] =
      reinterpret_cast<PyObject *const(&)[9]>(*arguments);
  for (PyObject *tuple : {names, tensors, scalars, extents})
    if (!PyTuple_Check(tuple))
      return PyErr_Format(PyExc_TypeError, "launch_named takes a tuple, not %R", tuple);
  Kernel &kernel = kernelOf(self);
  int isBshd = PyObject_IsTrue(bshd);
  void *stream = PyLong_AsVoidPtr(streamOf);
  if (isBshd < 0 || (!stream && PyErr_Occurred()))
    return nullptr;
  NamedLaunch launch;
  if (!launch.readTensors(names, tensors, isBshd) || !launch.readExtents(extents) ||
      !readScale(scale, launch.given) || !launch.readParameters(kernel, values, scalars))
    return nullptr;
  AllocatingFunction allocator(allocate);
  if (!run(kernel, launch.given, launch.extentOf("Sq", launch.given.q),
           launch.extentOf("Sk", launch.given.k), stream,
           allocate == Py_None ? nullptr : &allocator))
    return nullptr;
  Py_RETURN_NONE;
}

} // namespace tesela::python
