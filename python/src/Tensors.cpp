//===- Tensors.cpp - Python's tensors as views ------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "Native.h"

namespace tesela::python {

namespace {

/// NumPy's array interface, https://numpy.org/doc/stable/reference/arrays.interface.html.
struct ArrayInterface {
  int two;
  int rank;
  char kind;
  int elementBytes;
  int flags;
  Py_intptr_t *shape;
  Py_intptr_t *strides; ///< in bytes
  void *data;
  PyObject *description;
};
constexpr int isNative = 0x200, isWritable = 0x400;

/// DLPack's interface for C, version 1.3: https://dmlc.github.io/dlpack. It has no stable name for
/// DLTensor without dlpack.h. The library declares the structure too (runtime/api/DLPackAbi.h).
struct DLTensor {
  void *data;
  int32_t deviceType, deviceIndex, rank;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byteOffset;
};
struct ExchangeInterface {
  uint32_t major, minor;
  void *previous;
  void *allocate, *manage, *toPython;
  int (*view)(void *object, DLTensor *tensor); ///< null if it is missing
  int (*currentStream)(int32_t deviceType, int32_t deviceIndex, void **stream);
};
constexpr uint32_t exchangeMajor = 1;

/// A type's interface; null if it has none or another version. There are few types of tensors;
/// types beyond `most` are queried each time.
const ExchangeInterface *exchangeOf(PyTypeObject *type) {
  struct Known {
    PyTypeObject *type;
    const ExchangeInterface *exchange;
  };
  constexpr int most = 8;
  static Known known[most];
  static int count = 0;
  for (int i = 0; i < count; ++i)
    if (known[i].type == type)
      return known[i].exchange;
  const ExchangeInterface *exchange = nullptr;
  Owned capsule(
      PyObject_GetAttrString(reinterpret_cast<PyObject *>(type), "__dlpack_c_exchange_api__"));
  if (capsule)
    exchange = static_cast<const ExchangeInterface *>(
        PyCapsule_GetPointer(capsule.get(), "dlpack_exchange_api"));
  PyErr_Clear();
  if (exchange && (exchange->major != exchangeMajor || !exchange->view))
    exchange = nullptr;
  if (count < most) {
    Py_INCREF(type); // so that its address is not reused for another type
    known[count++] = {type, exchange};
  }
  return exchange;
}

bool checkRank(int64_t rank, const char *name) {
  if (rank >= 0 && rank <= TESELA_MAX_RANK)
    return true;
  raise(TESELA_INVALID_ARGUMENT, "%s has %lld axes, a tensor has at most %d", name,
        static_cast<long long>(rank), TESELA_MAX_RANK);
  return false;
}

bool readIntegers(PyObject *from, const char *name, const char *what, int64_t *to, int rank) {
  if (!PyTuple_Check(from) || PyTuple_Size(from) != rank) {
    PyErr_Format(PyExc_TypeError, "%s's %s must be a tuple of %d numbers, not %R", name, what, rank,
                 from);
    return false;
  }
  for (int axis = 0; axis < rank; ++axis) {
    to[axis] = PyLong_AsLongLong(PyTuple_GetItem(from, axis));
    if (to[axis] == -1 && PyErr_Occurred())
      return false;
  }
  return true;
}

/// (address, shape, strides, type, memory, device index)
bool readPlain(PyObject *object, const char *name, tesela_tensor &tensor) {
  if (PyTuple_Size(object) != 6) {
    PyErr_Format(PyExc_TypeError,
                 "%s is a tuple of %zd, it must be (address, shape, strides, type, memory, device)",
                 name, PyTuple_Size(object));
    return false;
  }
  auto item = [&](Py_ssize_t index) { return PyTuple_GetItem(object, index); };
  tensor.data = PyLong_AsVoidPtr(item(0));
  tensor.type = tesela_type(PyLong_AsLong(item(3)));
  tensor.memory = tesela_memory(PyLong_AsLong(item(4)));
  tensor.device_index = int(PyLong_AsLong(item(5)));
  if (PyErr_Occurred())
    return false;
  Py_ssize_t rank = PyTuple_Size(item(1));
  if (rank < 0 || !checkRank(rank, name))
    return false;
  tensor.rank = int(rank);
  if (!readIntegers(item(1), name, "shape", tensor.extents, tensor.rank))
    return false;
  if (item(2) != Py_None)
    return readIntegers(item(2), name, "strides", tensor.strides, tensor.rank);
  tesela_tensor compact = sized<tesela_tensor>();
  if (tesela_tensor_contiguous(tensor.data, tensor.type, tensor.rank, tensor.extents, &compact) !=
      TESELA_OK) {
    raiseLast();
    return false;
  }
  std::memcpy(tensor.strides, compact.strides, sizeof tensor.strides);
  return true;
}

/// The name of an object's dtype: "float64".
Owned typeName(PyObject *object) {
  Owned type(PyObject_GetAttrString(object, "dtype"));
  return Owned(type ? PyObject_Str(type.get()) : nullptr);
}

/// Whether the dtype's name is `type`. For types that NumPy itself does not have (ml_dtypes).
bool isNamed(PyObject *object, const char *type) {
  Owned name = typeName(object);
  bool is = name && PyUnicode_CompareWithASCIIString(name.get(), type) == 0;
  PyErr_Clear();
  return is;
}

/// The element type of an array; false if it raised.
bool readType(PyObject *object, const char *name, const ArrayInterface &array, tesela_type &type) {
  struct {
    char kind;
    int bytes;
    tesela_type type;
  } const known[] = {{'f', 4, TESELA_F32},
                     {'f', 2, TESELA_F16},
                     {'i', 4, TESELA_I32},
                     {'i', 8, TESELA_I64},
                     {'b', 1, TESELA_BOOL}};
  bool isInOrder = array.elementBytes == 1 || (array.flags & isNative);
  for (const auto &each : known)
    if (each.kind == array.kind && each.bytes == array.elementBytes && isInOrder) {
      type = each.type;
      return true;
    }
  if (array.kind == 'V' && array.elementBytes == 2 && isNamed(object, "bfloat16")) {
    type = TESELA_BF16;
    return true;
  }
  if (array.elementBytes == 1 && (array.kind == 'V' || array.kind == 'f') &&
      isNamed(object, "float8_e4m3fn")) {
    type = TESELA_E4M3;
    return true;
  }
  Owned text = typeName(object);
  if (text)
    raise(TESELA_UNSUPPORTED,
          "%s's elements are %U%s, they must be float32, float16, bfloat16 or float8_e4m3fn (of "
          "ml_dtypes), int32, int64 or bool: convert them",
          name, text.get(), isInOrder ? "" : " in the other order of bytes");
  return false;
}

bool readArray(PyObject *object, const char *name, const ArrayInterface &array,
               tesela_tensor &tensor) {
  if (!checkRank(array.rank, name) || !readType(object, name, array, tensor.type))
    return false;
  tensor.data = array.data;
  tensor.rank = array.rank;
  tensor.memory = TESELA_MEMORY_HOST;
  tensor.read_only = !(array.flags & isWritable);
  for (int axis = 0; axis < array.rank; ++axis) {
    int64_t bytes = array.strides[axis];
    tensor.extents[axis] = array.shape[axis];
    tensor.strides[axis] = bytes / array.elementBytes;
    if (bytes % array.elementBytes && array.shape[axis] > 1) {
      raise(TESELA_INVALID_ARGUMENT,
            "%s's stride of axis %d is %lld bytes, which is not a multiple of the %d bytes of an "
            "element: copy it",
            name, axis, static_cast<long long>(bytes), array.elementBytes);
      return false;
    }
  }
  return true;
}

} // namespace

bool readTensor(PyObject *object, const char *name, tesela_tensor &tensor, Owned &holder) {
  tensor = sized<tesela_tensor>();
  if (PyTuple_CheckExact(object))
    return readPlain(object, name, tensor);
  if (const ExchangeInterface *exchange = exchangeOf(Py_TYPE(object))) {
    DLTensor view;
    if (exchange->view(object, &view) != 0) {
      if (!PyErr_Occurred())
        PyErr_Format(PyExc_BufferError, "%s cannot be exchanged by DLPack", name);
      return false;
    }
    if (tesela_tensor_from_dl_tensor(&view, &tensor) == TESELA_OK)
      return true;
    raise(tesela_last_error_code(), "%s: %s", name, tesela_last_error());
    return false;
  }
  static PyObject *attribute = PyUnicode_InternFromString("__array_struct__");
  holder = Owned(PyObject_GetAttr(object, attribute));
  if (!holder) {
    PyErr_Clear();
    raise(TESELA_INVALID_ARGUMENT,
          "%s is of the type %R, which is not a tensor: pass a tensor of NumPy, PyTorch or JAX",
          name, Py_TYPE(object));
    return false;
  }
  auto *array = static_cast<const ArrayInterface *>(PyCapsule_GetPointer(holder.get(), nullptr));
  return array && readArray(object, name, *array, tensor);
}

bool readCurrentStream(PyObject *tensor, int device, void *&stream) {
  const ExchangeInterface *exchange = exchangeOf(Py_TYPE(tensor));
  constexpr int32_t cuda = 2; // kDLCUDA
  if (!exchange || !exchange->currentStream)
    PyErr_Format(PyExc_TypeError, "%R has no current stream", Py_TYPE(tensor));
  else if (exchange->currentStream(cuda, device, &stream) == 0)
    return true;
  else if (!PyErr_Occurred())
    PyErr_Format(PyExc_BufferError, "DLPack knows no current stream of cuda:%d", device);
  return false;
}

} // namespace tesela::python
