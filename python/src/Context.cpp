//===- Context.cpp - Devices and contexts -----------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "Native.h"

namespace tesela::python {

PyTypeObject *contextType;

namespace {

PyObject *describe(const tesela_device_info &info) {
  return Py_BuildValue("{s:s,s:i,s:s,s:s,s:s,s:i,s:i,s:L}", "kind",
                       info.kind == TESELA_DEVICE_CUDA ? "cuda" : "host", "index", info.index,
                       "name", info.name, "target", info.target, "driver", info.driver, "sm",
                       info.sm, "processors", info.processors, "memory_bytes",
                       static_cast<long long>(info.memory_bytes));
}

/// Context(device, cache_folder or None, no_disk_cache, cache_bytes, most_kernels, threads)
PyObject *make(PyTypeObject *type, PyObject *arguments, PyObject *) {
  auto options = sized<tesela_context_options>();
  long long cacheBytes, mostKernels;
  if (!PyArg_ParseTuple(arguments, "szpLLi", &options.device, &options.cache_folder,
                        &options.no_disk_cache, &cacheBytes, &mostKernels, &options.threads))
    return nullptr;
  options.cache_bytes = cacheBytes;
  options.most_kernels = mostKernels;
  tesela_context *context;
  tesela_code code;
  {
    WithoutGil others;
    code = tesela_context_create(&options, &context);
  }
  if (code != TESELA_OK)
    return raiseLast();
  auto *allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
  auto *self = reinterpret_cast<ContextObject *>(allocate(type, 0));
  if (self)
    self->context = context;
  else
    tesela_context_destroy(context);
  return reinterpret_cast<PyObject *>(self);
}

void destroy(PyObject *object) {
  tesela_context *context = reinterpret_cast<ContextObject *>(object)->context;
  {
    WithoutGil others; // destroying waits for compilations in the background
    tesela_context_destroy(context);
  }
  freeObject(object);
}

tesela_context *contextOf(PyObject *self) {
  return reinterpret_cast<ContextObject *>(self)->context;
}

PyObject *device(PyObject *self, void *) {
  auto info = sized<tesela_device_info>();
  if (tesela_context_describe_device(contextOf(self), &info) != TESELA_OK)
    return raiseLast();
  return describe(info);
}

PyObject *compileCount(PyObject *self, void *) {
  return PyLong_FromLongLong(tesela_context_compile_count(contextOf(self)));
}

/// workers(input_type, head_dim_qk, head_dim_v, is_narrow, (batch, heads, kv_heads, queries, keys))
PyObject *workers(PyObject *self, PyObject *arguments) {
  auto options = sized<tesela_kernel_options>();
  int type, isNarrow;
  long long batch, heads, kvHeads, queries, keys;
  if (!PyArg_ParseTuple(arguments, "iiip(LLLLL)", &type, &options.head_dim_qk, &options.head_dim_v,
                        &isNarrow, &batch, &heads, &kvHeads, &queries, &keys))
    return nullptr;
  options.algorithm = "forward_in_parts";
  options.input_type = tesela_type(type);
  const char *narrow = "cache=e4m3";
  options.bindings = &narrow;
  options.binding_count = isNarrow ? 1 : 0;
  tesela_sizes sizes = {batch, heads, kvHeads, queries, keys};
  int64_t found;
  if (tesela_workers_for(contextOf(self), &options, &sizes, &found) != TESELA_OK)
    return raiseLast();
  return PyLong_FromLongLong(found);
}

PyObject *address(PyObject *self, void *) { return PyLong_FromVoidPtr(contextOf(self)); }

PyGetSetDef attributes[] = {
    {"device", device, nullptr, "What is known of the device, a dictionary.", nullptr},
    {"compile_count", compileCount, nullptr, "How often the compiler ran.", nullptr},
    {"address", address, nullptr, "The tesela_context *, as a number.", nullptr},
    {}};

PyMethodDef methods[] = {
    {"workers", workers, METH_VARARGS,
     "workers(input_type, head_dim_qk, head_dim_v, is_narrow, (batch, heads, kv_heads, queries, "
     "keys)): among how many work items keys are shared."},
    {}};

PyType_Slot slots[] = {{Py_tp_doc, const_cast<char *>("A device with its cache of kernels.")},
                       {Py_tp_new, reinterpret_cast<void *>(make)},
                       {Py_tp_dealloc, reinterpret_cast<void *>(destroy)},
                       {Py_tp_getset, attributes},
                       {Py_tp_methods, methods},
                       {}};
PyType_Spec spec = {"tesela._native.Context", sizeof(ContextObject), 0, Py_TPFLAGS_DEFAULT, slots};

} // namespace

PyObject *usePtxas(PyObject *, PyObject *path) {
  const char *text = PyUnicode_AsUTF8AndSize(path, nullptr);
  if (!text)
    return nullptr;
  if (tesela_use_ptxas(text) != TESELA_OK)
    return raiseLast();
  Py_RETURN_NONE;
}

PyObject *devices(PyObject *, PyObject *kind) {
  const char *name = PyUnicode_AsUTF8AndSize(kind, nullptr);
  if (!name)
    return nullptr;
  bool isCuda = std::strcmp(name, "cuda") == 0;
  tesela_devices *list;
  tesela_code code;
  {
    WithoutGil others;
    code = tesela_devices_create(isCuda ? TESELA_DEVICE_CUDA : TESELA_DEVICE_HOST, &list);
  }
  if (code != TESELA_OK)
    return raiseLast();
  Owned result(PyList_New(0));
  for (size_t i = 0; result && i < tesela_devices_count(list); ++i) {
    auto info = sized<tesela_device_info>();
    Owned item(tesela_devices_describe(list, i, &info) == TESELA_OK ? describe(info) : raiseLast());
    if (!item || PyList_Append(result.get(), item.get()) < 0)
      result = Owned();
  }
  tesela_devices_destroy(list);
  return result.release();
}

bool addContextType(PyObject *module) { return addType(module, spec, "Context", contextType); }

} // namespace tesela::python
