//===- Preparation.cpp - Kernels made in the background ---------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "Native.h"

namespace tesela::python {

namespace {

PyTypeObject *preparationType;

struct PreparationObject {
  PyObject_HEAD tesela_preparation *preparation;
};

tesela_preparation *preparationOf(PyObject *self) {
  return reinterpret_cast<PreparationObject *>(self)->preparation;
}

void destroy(PyObject *object) {
  tesela_preparation_destroy(preparationOf(object));
  freeObject(object);
}

/// wait(milliseconds)
PyObject *wait(PyObject *self, PyObject *milliseconds) {
  long long most = PyLong_AsLongLong(milliseconds);
  if (most == -1 && PyErr_Occurred())
    return nullptr;
  int isDone;
  {
    WithoutGil others;
    isDone = tesela_preparation_wait(preparationOf(self), most);
  }
  return PyBool_FromLong(isDone);
}

PyObject *cancel(PyObject *self, PyObject *) {
  tesela_preparation_cancel(preparationOf(self));
  Py_RETURN_NONE;
}

/// Raises the failure, if any. The kernel stays in its context's memory, where launches find it.
PyObject *check(PyObject *self, PyObject *) {
  tesela_kernel *kernel;
  tesela_code code;
  {
    WithoutGil others;
    code = tesela_preparation_get(preparationOf(self), &kernel);
  }
  if (code != TESELA_OK)
    return raiseLast();
  tesela_kernel_destroy(kernel);
  Py_RETURN_NONE;
}

/// Raises the reason if the best schedule's kernel, or the kernel itself, was not made.
PyObject *best(PyObject *self, PyObject *milliseconds) {
  long long most = PyLong_AsLongLong(milliseconds);
  if (most == -1 && PyErr_Occurred())
    return nullptr;
  tesela_kernel *kernel;
  tesela_code code;
  int isBest;
  {
    WithoutGil others;
    code = tesela_preparation_get(preparationOf(self), &kernel);
    if (code == TESELA_OK)
      code = tesela_kernel_is_best(kernel, most, &isBest);
  }
  // Destroying does not change this thread's last failure.
  tesela_kernel_destroy(kernel);
  return code == TESELA_OK ? PyBool_FromLong(isBest) : raiseLast();
}

PyMethodDef methods[] = {
    {"wait", wait, METH_O, "wait(milliseconds): whether it is done by then."},
    {"cancel", cancel, METH_NOARGS, "Takes the request back where it is not done."},
    {"check", check, METH_NOARGS, "Waits, and raises what went wrong."},
    {"best", best, METH_O,
     "best(milliseconds): whether the kernel has its best schedule by then; waits for the kernel."},
    {}};
PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char *>("A kernel that is made on threads of its context.")},
    {Py_tp_dealloc, reinterpret_cast<void *>(destroy)},
    {Py_tp_methods, methods},
    {}};
PyType_Spec spec = {"tesela._native.Preparation", sizeof(PreparationObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

} // namespace

PyObject *prepare(tesela_context *context, const tesela_kernel_options &options,
                  int64_t milliseconds) {
  tesela_preparation *preparation;
  if (tesela_prepare(context, &options, milliseconds, &preparation) != TESELA_OK)
    return raiseLast();
  auto *allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(preparationType, Py_tp_alloc));
  PyObject *self = allocate(preparationType, 0);
  if (self)
    reinterpret_cast<PreparationObject *>(self)->preparation = preparation;
  else
    tesela_preparation_destroy(preparation);
  return self;
}

bool addPreparationType(PyObject *module) {
  return addType(module, spec, "Preparation", preparationType);
}

} // namespace tesela::python
