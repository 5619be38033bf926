//===- Eager.cpp - A call over tensors, from the tensors to the outputs ------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// What an eager call of a framework does around Kernel.launch: it looks at the tensors, finds the
// kernel, allocates the outputs and asks for the current stream. Each step in Python would cost as
// much as the library's own part of a launch.
//
//===----------------------------------------------------------------------===//
#include "Native.h"

namespace tesela::python {

namespace {

PyTypeObject *eagerType;

constexpr int hostDevice = -1; // as tesela._contexts has it

/// The framework's functions that allocate.
struct Framework {
  PyObject *types;         ///< a tuple of its element types, by the library's number
  PyObject *emptyHost;     ///< (shape, strides, type), in the host's memory
  PyObject *emptyCuda;     ///< likewise, on the current GPU
  PyObject *currentDevice; ///< (), the current GPU's number
  PyObject *emptyOn;       ///< (shape, strides, type, device), on any GPU
  PyObject *workspace;     ///< (bytes, device), on any GPU
};

struct EagerObject {
  PyObject_HEAD Framework framework;
};

/// Eager(types, empty_host, empty_cuda, current_device, empty_on, workspace)
PyObject *make(PyTypeObject *type, PyObject *arguments, PyObject *) {
  Framework given;
  if (!PyArg_ParseTuple(arguments, "O!OOOOO", &PyTuple_Type, &given.types, &given.emptyHost,
                        &given.emptyCuda, &given.currentDevice, &given.emptyOn, &given.workspace))
    return nullptr;
  auto *allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
  PyObject *self = allocate(type, 0);
  if (!self)
    return nullptr;
  for (PyObject *each : {given.types, given.emptyHost, given.emptyCuda, given.currentDevice,
                         given.emptyOn, given.workspace})
    Py_INCREF(each);
  reinterpret_cast<EagerObject *>(self)->framework = given;
  return self;
}

void destroy(PyObject *object) {
  Framework &framework = reinterpret_cast<EagerObject *>(object)->framework;
  for (PyObject *each : {framework.types, framework.emptyHost, framework.emptyCuda,
                         framework.currentDevice, framework.emptyOn, framework.workspace})
    Py_XDECREF(each);
  freeObject(object);
}

/// A call's own arguments.
struct Arguments {
  PyObject *variant, *kernels, *q, *k, *v, *out, *scale, *values, *constants, *isBshd, *returnLse;
};

/// One call.
class Call {
public:
  Call(const Framework &framework, const Arguments &given) : framework(framework), given(given) {}

  /// Whether the tensors are of a kind that kernels are for. Nothing is raised: the caller knows
  /// better what to say.
  bool readInputs() {
    PyObject *const objects[] = {given.q, given.k, given.v};
    for (int i = 0; i < 3; ++i)
      if (!readTensor(objects[i], inputNames[i], views[i], holders[i]) || views[i].rank != 4) {
        PyErr_Clear();
        return false;
      }
    const tesela_tensor &q = views[0];
    isHost = q.memory == TESELA_MEMORY_HOST || q.memory == TESELA_MEMORY_PINNED;
    deviceNumber = isHost ? hostDevice : q.device_index;
    bool isHalf = q.type == TESELA_F16 || q.type == TESELA_BF16;
    return isHost ? isHalf || q.type == TESELA_F32 : isHalf && q.memory == TESELA_MEMORY_CUDA;
  }

  /// (o, lse or None); null where it raised.
  PyObject *run() {
    int isBshd = PyObject_IsTrue(given.isBshd), returnsLse = PyObject_IsTrue(given.returnLse);
    device = Owned(PyLong_FromLong(deviceNumber));
    if (isBshd < 0 || returnsLse < 0 || !device)
      return nullptr;
    Owned kernel = findKernel();
    if (!kernel || (!isHost && !chooseEmpty()))
      return nullptr;
    Owned o = given.out == Py_None ? makeOutput() : Owned(Py_NewRef(given.out));
    if (!o || !readTensor(o.get(), "o", views[3], holders[3]))
      return nullptr;
    if (isBshd)
      for (int i = 0; i < 4; ++i)
        swapLengthAndHeads(views[i]);
    Owned lse = returnsLse ? makeLse() : Owned(Py_NewRef(Py_None));
    if (!lse || (returnsLse && !readTensor(lse.get(), "lse", views[4], holders[4])))
      return nullptr;
    void *stream = nullptr;
    if (!isHost && !readCurrentStream(given.q, deviceNumber, stream))
      return nullptr;
    if (!launchViews(kernel.get(), views, returnsLse, given.scale, given.values, stream,
                     {isHost ? Py_None : framework.workspace, device.get()}))
      return nullptr;
    return PyTuple_Pack(2, o.get(), lse.get());
  }

private:
  static constexpr const char *inputNames[] = {"q", "k", "v"};

  const Framework &framework;
  const Arguments &given;
  tesela_tensor views[5]; ///< q, k, v, o, lse
  Owned holders[5];
  bool isHost = false, isElsewhere = false;
  int deviceNumber = hostDevice;
  Owned device; ///< its number

  /// By the key of tesela._variant.Variant._kernel, which makes those that are not there.
  Owned findKernel() {
    static PyObject *const method = PyUnicode_InternFromString("_kernel");
    static PyObject *const algorithm = PyUnicode_InternFromString("forward");
    Owned type(PyLong_FromLong(views[0].type)), headDimQk(PyLong_FromLongLong(views[0].extents[3])),
        headDimV(PyLong_FromLongLong(views[2].extents[3]));
    if (!type || !headDimQk || !headDimV)
      return Owned();
    Owned key(PyTuple_Pack(6, type.get(), headDimQk.get(), headDimV.get(), device.get(),
                           given.constants, algorithm));
    if (!key)
      return Owned();
    if (PyObject *found = PyDict_GetItemWithError(given.kernels, key.get()))
      return Owned(Py_NewRef(found));
    if (PyErr_Occurred())
      return Owned();
    return Owned(PyObject_CallMethodObjArgs(given.variant, method, type.get(), headDimQk.get(),
                                            headDimV.get(), device.get(), given.constants,
                                            nullptr));
  }

  bool chooseEmpty() {
    Owned current(PyObject_CallNoArgs(framework.currentDevice));
    isElsewhere = current && PyLong_AsLong(current.get()) != deviceNumber;
    return current && !PyErr_Occurred();
  }

  /// A tensor whose axes lie in memory in the order `order`, without gaps.
  template <int rank>
  Owned empty(tesela_type type, const int64_t (&extents)[rank], const int (&order)[rank]) {
    Owned shape(PyTuple_New(rank)), strides(PyTuple_New(rank));
    int64_t stride = 1;
    for (int place = rank - 1; place >= 0; --place) {
      int axis = order[place];
      PyObject *extent = PyLong_FromLongLong(extents[axis]), *step = PyLong_FromLongLong(stride);
      if (!shape || !strides || !extent || !step || PyTuple_SetItem(shape.get(), axis, extent) ||
          PyTuple_SetItem(strides.get(), axis, step))
        return Owned();
      stride *= extents[axis] > 0 ? extents[axis] : 1;
    }
    PyObject *function = isHost        ? framework.emptyHost
                         : isElsewhere ? framework.emptyOn
                                       : framework.emptyCuda;
    PyObject *elements = PyTuple_GetItem(framework.types, type);
    return Owned(elements
                     ? PyObject_CallFunctionObjArgs(function, shape.get(), strides.get(), elements,
                                                    isElsewhere ? device.get() : nullptr, nullptr)
                     : nullptr);
  }

  /// In q's order of the two middle axes in memory.
  Owned makeOutput() {
    const tesela_tensor &q = views[0];
    const int64_t extents[] = {q.extents[0], q.extents[1], q.extents[2], views[2].extents[3]};
    return q.strides[1] < q.strides[2] ? empty(q.type, extents, {0, 2, 1, 3})
                                       : empty(q.type, extents, {0, 1, 2, 3});
  }

  Owned makeLse() {
    const tesela_tensor &q = views[0];
    return empty(TESELA_F32, {q.extents[0], q.extents[1], q.extents[2]}, {0, 1, 2});
  }
};

/// attend(variant, kernels, q, k, v, out, scale, values, constants, is_bshd, return_lse)
PyObject *attend(PyObject *self, PyObject *const *given, Py_ssize_t count) {
  if (count != 11)
    return PyErr_Format(PyExc_TypeError, "attend takes 11 arguments, not %zd", count);
  Arguments arguments = {given[0], given[1], given[2], given[3], given[4], given[5],
                         given[6], given[7], given[8], given[9], given[10]};
  Call call(reinterpret_cast<EagerObject *>(self)->framework, arguments);
  if (!call.readInputs())
    Py_RETURN_NONE;
  return call.run();
}

PyMethodDef methods[] = {
    {"attend", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(attend)), METH_FASTCALL,
     "attend(variant, kernels, q, k, v, out, scale, values, constants, is_bshd, return_lse): (o, "
     "lse or None); None where there are no kernels for such tensors."},
    {}};

PyType_Slot slots[] = {{Py_tp_doc, const_cast<char *>("Calls over a framework's tensors.")},
                       {Py_tp_new, reinterpret_cast<void *>(make)},
                       {Py_tp_dealloc, reinterpret_cast<void *>(destroy)},
                       {Py_tp_methods, methods},
                       {}};
PyType_Spec spec = {"tesela._native.Eager", sizeof(EagerObject), 0, Py_TPFLAGS_DEFAULT, slots};

} // namespace

bool addEagerType(PyObject *module) { return addType(module, spec, "Eager", eagerType); }

} // namespace tesela::python
