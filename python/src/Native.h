//===- Native.h - What the files of the extension share ---------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// tesela._native: the C API as Python objects. Only Python's limited API of 3.10 is used, so that
// one file serves every later Python.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_PYTHON_NATIVE_H
#define TESELA_PYTHON_NATIVE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030A0000
#include <Python.h>

#include "tesela/tesela.h"

#include <cstring>
#include <utility>

namespace tesela::python {

/// A reference that this code owns.
class Owned {
public:
  explicit Owned(PyObject *object = nullptr) : object(object) {}
  Owned(Owned &&other) noexcept : object(std::exchange(other.object, nullptr)) {}
  Owned &operator=(Owned &&other) noexcept {
    std::swap(object, other.object);
    return *this;
  }
  ~Owned() { Py_XDECREF(object); }
  explicit operator bool() const { return object; }
  PyObject *get() const { return object; }
  PyObject *release() { return std::exchange(object, nullptr); }

private:
  PyObject *object;
};

/// Lets other threads of Python run as long as it lives.
class WithoutGil {
public:
  WithoutGil() : state(PyEval_SaveThread()) {}
  WithoutGil(const WithoutGil &) = delete;
  WithoutGil &operator=(const WithoutGil &) = delete;
  ~WithoutGil() { PyEval_RestoreThread(state); }

private:
  PyThreadState *state;
};

/// A structure of the C API: its size, and zeros.
template <typename T> T sized() {
  T value;
  std::memset(static_cast<void *>(&value), 0, sizeof value);
  value.size = sizeof value;
  return value;
}

/// The class of exceptions for a code; the module's `set_errors` gives them. Null: not given.
PyObject *errorClass(tesela_code code);
/// The code of a class of exceptions; TESELA_DEFECT for those that are not the module's.
tesela_code errorCode(PyObject *type);
PyObject *setErrors(PyObject *module, PyObject *classes);

/// Raises this thread's last failure of the library and gives null.
PyObject *raiseLast();

/// Raises the exception of `code` with a sentence, which is formatted as by PyUnicode_FromFormat.
PyObject *raise(tesela_code code, const char *format, ...);

/// Reads a Python object as a view of a tensor; false where it raised. `name` is for messages. The
/// object is one of
///   - (address, shape, strides, type, memory, device index), strides None: without gaps;
///   - what has DLPack's C exchange interface, such as torch.Tensor;
///   - what has __array_struct__, such as numpy.ndarray.
/// `holder` gets what must live as long as the view is used.
bool readTensor(PyObject *object, const char *name, tesela_tensor &tensor, Owned &holder);

/// The stream on which the framework of a tensor computes on a GPU now; false where it raised.
bool readCurrentStream(PyObject *tensor, int device, void *&stream);

/// Adds a type to the module; its place in `type` stays for ever.
bool addType(PyObject *module, PyType_Spec &spec, const char *name, PyTypeObject *&type);

/// Frees an object of a type of this module.
void freeObject(PyObject *object);

/// `object` as the C++ structure of its type; raises TypeError and gives null where it is another.
void *asObject(PyObject *object, PyTypeObject *type, const char *name);

struct VariantObject {
  PyObject_HEAD tesela_variant *variant;
  PyObject *text; ///< str
  PyObject *file; ///< str
};
extern PyTypeObject *variantType;
bool addVariantType(PyObject *module);

struct ContextObject {
  PyObject_HEAD tesela_context *context;
};
extern PyTypeObject *contextType;
bool addContextType(PyObject *module);
PyObject *devices(PyObject *module, PyObject *kind);
PyObject *usePtxas(PyObject *module, PyObject *path);

extern PyTypeObject *kernelType;
bool addKernelType(PyObject *module);

/// What gives device memory for a launch. It must stay until the launch is done: that is the
/// framework's allocator's matter.
class Allocator {
public:
  virtual ~Allocator() = default;
  /// A tensor of so many bytes, whose address is a multiple of 256; null where it raised.
  virtual Owned allocate(size_t bytes) const = 0;
};

/// Launches a kernel of attention over views of q, k, v and o, with the axes [batch, heads, length,
/// head_dim], and perhaps of lse, [batch, heads, length]; false where it raised. Without an
/// allocator the library has memory of its own. The rest is as for Kernel.launch.
bool launchViews(PyObject *kernel, const tesela_tensor *views, bool hasLse, PyObject *scale,
                 PyObject *values, void *stream, const Allocator *allocator);

bool addEagerType(PyObject *module);

/// Which of a kernel's compilations launches of these lengths run.
int bucketOf(int64_t queries, int64_t keys);

/// [batch, length, heads, head_dim] as [batch, heads, length, head_dim].
void swapLengthAndHeads(tesela_tensor &tensor);

bool addPreparationType(PyObject *module);
/// Has the kernel of `options` made in the background.
PyObject *prepare(tesela_context *context, const tesela_kernel_options &options,
                  int64_t milliseconds);

bool addKeptCellsType(PyObject *module);
/// split_cells(work, owners, ranks): of each rank the work of its cells, how many cells of other
/// ranks it needs keys of, and of how many ranges its own are.
PyObject *splitCells(PyObject *module, PyObject *arguments);
/// deal_cells(work, cells, ranks, slack): the rank of each cell, so that all have as many, no rank
/// has more than `slack` times its share of the work, where that can be, and needs few keys.
PyObject *dealCells(PyObject *module, PyObject *arguments);

bool addExplanationType(PyObject *module);
/// `values` are by slot, as a launch's.
PyObject *explain(const VariantObject &variant, const tesela_kernel_options &options,
                  const tesela_sizes &sizes, const char *target, PyObject *values);

/// `progress` is a function of (decided, total, speedup, seconds left), or None.
PyObject *tune(const tesela_context *context, const tesela_kernel_options &options,
               const tesela_tune_shape &shape, const tesela_tune_options &tuning,
               PyObject *progress);

PyObject *cacheFolder(PyObject *module, PyObject *folder);
PyObject *cacheList(PyObject *module, PyObject *arguments);
PyObject *cachePrune(PyObject *module, PyObject *arguments);

/// Handlers for the host and for CUDA, which ask `finder` for kernels.
PyObject *xlaHandlers(PyObject *module, PyObject *finder);
/// How often XLA has called them. What it recorded and runs again it does not call.
PyObject *xlaCalls(PyObject *module, PyObject *);

} // namespace tesela::python

#endif // TESELA_PYTHON_NATIVE_H
