//===- Besides.cpp - What a call needs besides a launch ----------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "Framework.h"

namespace tesela::python {

bool Framework::read(PyObject *arguments, PyObject *named) {
  static const char *names[] = {
      "element_types", "empty_host",   "empty_cuda",      "current_device",
      "empty_on",      "written",      "tensor_types",    "is_pending",
      "observers",     "forward_mode", "is_grad_enabled", "is_autocasting",
      "variant_type",  "variants",     "as_variant",      nullptr};
  if (!PyArg_ParseTupleAndKeywords(
          arguments, named, "$O!OOOOOO!OO!OOOO!O!O", const_cast<char **>(names), &PyTuple_Type,
          &elementTypes, &emptyHost, &emptyCuda, &currentDevice, &emptyOn, &written, &PyTuple_Type,
          &tensorTypes, &isPending, &PyTuple_Type, &observers, &forwardMode, &isGradEnabled,
          &isAutocasting, &PyType_Type, &variantType, &PyDict_Type, &variants, &asVariant))
    return false;
  owner = Py_NewRef(named); // the dictionary of these arguments; nothing else owns it
  return true;
}

namespace {

/// The truth value of a function's result: 1, 0, or -1 if it raised.
int truthOf(Owned result) { return result ? PyObject_IsTrue(result.get()) : -1; }

class Looks {
public:
  explicit Looks(const Framework &framework) : framework(framework) {}

  bool isPlainType(PyObject *object) const {
    PyObject *type = reinterpret_cast<PyObject *>(Py_TYPE(object));
    for (Py_ssize_t i = 0; i < PyTuple_Size(framework.tensorTypes); ++i)
      if (PyTuple_GetItem(framework.tensorTypes, i) == type)
        return true;
    return false;
  }

  /// Whether a profiler, trace, mode or transform observes the call; -1 if it raised.
  int isObserved() const {
    for (Py_ssize_t i = 0; i < PyTuple_Size(framework.observers); ++i)
      if (int sees = truthOf(Owned(PyObject_CallNoArgs(PyTuple_GetItem(framework.observers, i)))))
        return sees;
    static PyObject *const name = PyUnicode_InternFromString("_current_level");
    Owned level(PyObject_GetAttr(framework.forwardMode, name));
    long number = level ? PyLong_AsLong(level.get()) : -1;
    return PyErr_Occurred() ? -1 : number >= 0;
  }

  /// Whether the framework has a rule for a tensor, because of its type or because its value is
  /// pending.
  Besides tensor(PyObject *object) const {
    if (!isPlainType(object))
      return Besides::Dispatcher;
    int isPending =
        truthOf(Owned(PyObject_CallFunctionObjArgs(framework.isPending, object, nullptr)));
    return isPending < 0 ? Besides::Raised : isPending ? Besides::Dispatcher : Besides::Nothing;
  }

  /// The same for all tensors among a dictionary's values.
  Besides values(PyObject *dictionary) const {
    PyObject *value;
    for (Py_ssize_t place = 0; PyDict_Next(dictionary, &place, nullptr, &value);)
      if (isTensor(value))
        if (Besides found = tensor(value); found != Besides::Nothing)
          return found;
    return Besides::Nothing;
  }

  /// Whether a tensor requires a gradient; -1 if it raised.
  int requiresGrad(PyObject *object) const {
    if (object == Py_None)
      return 0;
    static PyObject *const name = PyUnicode_InternFromString("requires_grad");
    return truthOf(Owned(PyObject_GetAttr(object, name)));
  }

  int valueRequiresGrad(PyObject *dictionary) const {
    PyObject *value;
    for (Py_ssize_t place = 0; PyDict_Next(dictionary, &place, nullptr, &value);)
      if (isTensor(value))
        if (int answer = requiresGrad(value))
          return answer;
    return 0;
  }

private:
  const Framework &framework;

  bool isTensor(PyObject *value) const {
    PyTypeObject *type = Py_TYPE(value);
    if (value == Py_None || type == &PyLong_Type || type == &PyFloat_Type)
      return false;
    auto *tensor = reinterpret_cast<PyTypeObject *>(PyTuple_GetItem(framework.tensorTypes, 0));
    return type == tensor || PyType_IsSubtype(type, tensor);
  }
};

} // namespace

Besides lookAtTensors(const Framework &framework, PyObject *const *tensors, Py_ssize_t count) {
  Looks looks(framework);
  int isObserved = looks.isObserved();
  if (isObserved)
    return isObserved < 0 ? Besides::Raised : Besides::Dispatcher;
  for (Py_ssize_t i = 0; i < count; ++i)
    if (tensors[i] != Py_None)
      if (Besides found = looks.tensor(tensors[i]); found != Besides::Nothing)
        return found;
  return Besides::Nothing;
}

Besides lookAt(const Framework &framework, const CallArguments &given, PyObject *bound) {
  Looks looks(framework);
  PyObject *const tensors[] = {given.q, given.k, given.v, given.out};
  constexpr int count = 4;
  if (Besides found = lookAtTensors(framework, tensors, count); found != Besides::Nothing)
    return found;
  PyObject *const dictionaries[] = {bound, given.parameters};
  for (PyObject *dictionary : dictionaries)
    if (Besides found = looks.values(dictionary); found != Besides::Nothing)
      return found;
  if (int autocasts = truthOf(Owned(PyObject_CallNoArgs(framework.isAutocasting))))
    return autocasts < 0 ? Besides::Raised : Besides::Rules;
  int hasGradients = truthOf(Owned(PyObject_CallNoArgs(framework.isGradEnabled)));
  if (hasGradients <= 0)
    return hasGradients < 0 ? Besides::Raised : Besides::Nothing;
  for (int i = 0; i < count; ++i)
    if (int answer = looks.requiresGrad(tensors[i]))
      return answer < 0 ? Besides::Raised : Besides::Rules;
  for (PyObject *dictionary : dictionaries)
    if (int answer = looks.valueRequiresGrad(dictionary))
      return answer < 0 ? Besides::Raised : Besides::Rules;
  return Besides::Nothing;
}

} // namespace tesela::python
