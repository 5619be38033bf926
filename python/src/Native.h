//===- Native.h - Shared by the files of the extension ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// tesela._native: the C API as Python objects. It uses only Python's limited API of 3.10, so that
// one file serves all later versions of Python.
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

/// Owns a reference to a Python object.
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

/// Releases the GIL during its life.
class WithoutGil {
public:
  WithoutGil() : state(PyEval_SaveThread()) {}
  WithoutGil(const WithoutGil &) = delete;
  WithoutGil &operator=(const WithoutGil &) = delete;
  ~WithoutGil() { PyEval_RestoreThread(state); }

private:
  PyThreadState *state;
};

/// A structure of the C API, all zeros except its size.
template <typename T> T sized() {
  T value;
  std::memset(static_cast<void *>(&value), 0, sizeof value);
  value.size = sizeof value;
  return value;
}

/// The exception class for a code, as given to `set_errors`; null if none was given.
PyObject *errorClass(tesela_code code);
/// The code of an exception class; TESELA_DEFECT if it is not one of the module's.
tesela_code errorCode(PyObject *type);
PyObject *setErrors(PyObject *module, PyObject *classes);

/// Raises this thread's last failure of the library and returns null.
PyObject *raiseLast();

/// Raises the exception of `code` with a message formatted as by PyUnicode_FromFormat.
PyObject *raise(tesela_code code, const char *format, ...);

/// Reads a Python object as a view of a tensor; false if it raised. `name` is for messages. One of
///   - (address, shape, strides, type, memory, device index), strides None: contiguous;
///   - an object with DLPack's C exchange interface, such as torch.Tensor;
///   - an object with __array_struct__, such as numpy.ndarray.
/// `holder` gets the object that must live as long as the view.
bool readTensor(PyObject *object, const char *name, tesela_tensor &tensor, Owned &holder);

/// The stream on which the tensor's framework computes now on a GPU; false if it raised.
bool readCurrentStream(PyObject *tensor, int device, void *&stream);

/// Adds a type to the module and sets `type`, which is never freed.
bool addType(PyObject *module, PyType_Spec &spec, const char *name, PyTypeObject *&type);

/// Frees an object of a type of this module.
void freeObject(PyObject *object);

/// `object` as the C++ structure of its type. Raises TypeError and returns null if it has another
/// type.
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

/// Provides device memory for a launch. The memory must stay valid until the launch has ended; the
/// framework's allocator must see to that.
class Allocator {
public:
  virtual ~Allocator() = default;
  /// A tensor of `bytes` bytes, whose address is a multiple of 256; null if it raised.
  virtual Owned allocate(size_t bytes) const = 0;
};

/// Launches a kernel of attention over views of q, k, v and o, [batch, heads, length, head_dim],
/// and of lse, [batch, heads, length], if `hasLse`; false if it raised. Without an allocator the
/// library uses its own memory. The other arguments are as in Kernel.launch.
bool launchViews(PyObject *kernel, const tesela_tensor *views, bool hasLse, PyObject *scale,
                 PyObject *values, void *stream, const Allocator *allocator);

bool addEagerType(PyObject *module);

/// The bucket of launches with these lengths.
int bucketOf(int64_t queries, int64_t keys);

/// Turns a view [batch, length, heads, head_dim] into [batch, heads, length, head_dim].
void swapLengthAndHeads(tesela_tensor &tensor);

bool addPreparationType(PyObject *module);
/// Starts to make the kernel of `options` in the background.
PyObject *prepare(tesela_context *context, const tesela_kernel_options &options,
                  int64_t milliseconds);

bool addKeptCellsType(PyObject *module);
/// split_cells(sums, needs, owners, ranks): for each rank the work of its cells, the number of
/// other ranks' cells whose keys it needs, and the number of ranges that its own cells form.
PyObject *splitCells(PyObject *module, PyObject *arguments);
/// deal_cells(sums, needs, ranks, ranks_of_node, slack): the rank of each cell. All ranks get
/// equally many cells and few foreign keys, and, if possible, at most `slack` times their share of
/// the work. The same holds for nodes of neighbouring ranks, if the ranks are those of several.
PyObject *dealCells(PyObject *module, PyObject *arguments);

bool addExplanationType(PyObject *module);
/// `values` are by slot, as in a launch.
PyObject *explain(const VariantObject &variant, const tesela_kernel_options &options,
                  const tesela_sizes &sizes, const char *target, PyObject *values);

/// `progress` is a function of (decided, total, speedup, seconds left), or None.
PyObject *tune(const tesela_context *context, const tesela_kernel_options &options,
               const tesela_tune_shape &shape, const tesela_tune_options &tuning,
               PyObject *progress);

PyObject *cacheFolder(PyObject *module, PyObject *folder);
PyObject *cacheList(PyObject *module, PyObject *arguments);
PyObject *cachePrune(PyObject *module, PyObject *arguments);

/// Handlers for the host and for CUDA; they get kernels from `finder`.
PyObject *xlaHandlers(PyObject *module, PyObject *finder);
/// How often XLA has called the handlers. Calls that XLA recorded and replays are not counted.
PyObject *xlaCalls(PyObject *module, PyObject *);

} // namespace tesela::python

#endif // TESELA_PYTHON_NATIVE_H
