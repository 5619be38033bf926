//===- Module.cpp - tesela._native -----------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "Native.h"

#include <cstdarg>

namespace tesela::python {

namespace {

constexpr int codeCount = TESELA_DEADLINE_EXCEEDED + 1;
PyObject *errorClasses[codeCount];

/// The causes as a tuple: (tried, cause, cause's cause, ...).
PyObject *lastChain() {
  Owned chain(PyTuple_New(Py_ssize_t(tesela_last_error_count())));
  if (!chain)
    return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_Size(chain.get()); ++i) {
    PyObject *link =
        PyUnicode_DecodeUTF8(tesela_last_error_link(size_t(i)),
                             Py_ssize_t(std::strlen(tesela_last_error_link(size_t(i)))), "replace");
    if (!link || PyTuple_SetItem(chain.get(), i, link) < 0)
      return nullptr;
  }
  return chain.release();
}

void raiseWith(tesela_code code, PyObject *sentence, PyObject *chain) {
  PyObject *type = errorClass(code);
  Owned error(PyObject_CallFunctionObjArgs(type, sentence, chain, nullptr));
  if (error)
    PyErr_SetObject(type, error.get());
}

} // namespace

PyObject *errorClass(tesela_code code) {
  PyObject *type = code >= 0 && code < codeCount ? errorClasses[code] : nullptr;
  return type ? type : PyExc_RuntimeError;
}

tesela_code errorCode(PyObject *type) {
  for (int code = 1; code < codeCount; ++code)
    if (type && errorClasses[code] == type)
      return tesela_code(code);
  return TESELA_DEFECT;
}

PyObject *setErrors(PyObject *, PyObject *classes) {
  if (!PyTuple_Check(classes) || PyTuple_Size(classes) != codeCount)
    return PyErr_Format(PyExc_TypeError, "set_errors takes a tuple of %d classes", codeCount);
  for (int i = 0; i < codeCount; ++i) {
    PyObject *type = PyTuple_GetItem(classes, i);
    Py_INCREF(type);
    Py_XDECREF(std::exchange(errorClasses[i], type));
  }
  Py_RETURN_NONE;
}

PyObject *raiseLast() {
  tesela_code code = tesela_last_error_code();
  const char *text = tesela_last_error();
  Owned sentence(PyUnicode_DecodeUTF8(text, Py_ssize_t(std::strlen(text)), "replace"));
  Owned chain(sentence ? lastChain() : nullptr);
  if (chain)
    raiseWith(code, sentence.get(), chain.get());
  return nullptr;
}

PyObject *raise(tesela_code code, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Owned sentence(PyUnicode_FromFormatV(format, arguments));
  va_end(arguments);
  Owned chain(sentence ? PyTuple_Pack(1, sentence.get()) : nullptr);
  if (chain)
    raiseWith(code, sentence.get(), chain.get());
  return nullptr;
}

bool addType(PyObject *module, PyType_Spec &spec, const char *name, PyTypeObject *&type) {
  PyObject *made = PyType_FromSpec(&spec);
  type = reinterpret_cast<PyTypeObject *>(made);
  return made && PyModule_AddObjectRef(module, name, made) == 0;
}

void freeObject(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  auto *release = reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free));
  release(object);
  Py_DECREF(type);
}

void *asObject(PyObject *object, PyTypeObject *type, const char *name) {
  if (Py_TYPE(object) == type)
    return object;
  return PyErr_Format(PyExc_TypeError, "%s is a %R, not one of tesela._native's", name,
                      Py_TYPE(object));
}

namespace {

PyMethodDef methods[] = {
    {"set_errors", setErrors, METH_O, "The classes of exceptions, by the library's codes."},
    {"xla_handlers", xlaHandlers, METH_O,
     "XLA's handlers for the host and for CUDA, as capsules; the argument finds kernels for them."},
    {"xla_calls", xlaCalls, METH_NOARGS,
     "How often XLA has called them. What it recorded and runs again it does not call."},
    {"devices", devices, METH_O, "What there is of a kind of device, as dictionaries."},
    {"use_ptxas", usePtxas, METH_O, "The ptxas that contexts take which are made from now on."},
    {"cache_folder", cacheFolder, METH_O, "The folder that a name, or None, stands for."},
    {"cache_list", cacheList, METH_VARARGS, "cache_list(folder, verify): dictionaries."},
    {"cache_prune", cachePrune, METH_VARARGS,
     "cache_prune(folder, most_bytes, most_seconds_old): (kernels, bytes, bytes left). 0: no "
     "limit; -1, -1: all."},
    {"deal_cells", dealCells, METH_VARARGS,
     "deal_cells(sums, needs, ranks, ranks_of_node, slack): owners."},
    {"split_cells", splitCells, METH_VARARGS,
     "split_cells(sums, needs, owners, ranks): (work, foreign cells needed, ranges) of each rank."},
    {}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "tesela._native",
                          "Tesela's C API as Python objects; the package tesela is the interface.",
                          -1,
                          methods,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};

bool addNumbers(PyObject *module) {
  struct {
    const char *name;
    int value;
  } const numbers[] = {{"F32", TESELA_F32},
                       {"F16", TESELA_F16},
                       {"BF16", TESELA_BF16},
                       {"I32", TESELA_I32},
                       {"BOOL", TESELA_BOOL},
                       {"I64", TESELA_I64},
                       {"UNKNOWN", TESELA_MEMORY_UNKNOWN},
                       {"HOST", TESELA_MEMORY_HOST},
                       {"CUDA", TESELA_MEMORY_CUDA},
                       {"PINNED", TESELA_MEMORY_PINNED},
                       {"MANAGED", TESELA_MEMORY_MANAGED}};
  for (const auto &each : numbers)
    if (PyModule_AddIntConstant(module, each.name, each.value) < 0)
      return false;
  return PyModule_AddStringConstant(module, "version", tesela_version()) == 0;
}

} // namespace

} // namespace tesela::python

// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming): the name for Python
PyMODINIT_FUNC PyInit__native() {
  using namespace tesela::python;
  Owned module(PyModule_Create(&definition));
  if (!module || !addNumbers(module.get()) || !addVariantType(module.get()) ||
      !addContextType(module.get()) || !addEagerType(module.get()) ||
      !addKernelType(module.get()) || !addPreparationType(module.get()) ||
      !addExplanationType(module.get()) || !addKeptCellsType(module.get()))
    return nullptr;
  return module.release();
}
