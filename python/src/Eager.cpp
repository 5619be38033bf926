//===- Eager.cpp - A call over tensors, from inputs to outputs ---------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The work of an eager call around Kernel.launch: it checks whether the call needs more than a
// launch (Besides.cpp), reads the tensors, finds the kernel, allocates the outputs and asks for the
// current stream. In Python each of these steps would cost as much as the library's own part of a
// launch.
//
//===----------------------------------------------------------------------===//
#include "Framework.h"

namespace tesela::python {

namespace {

PyTypeObject *eagerType;

constexpr int hostDevice = -1; // as in tesela._contexts

/// Identifies the kernel of a variant, device, element type and head dimensions.
struct KernelKey {
  PyObject *kernels, *constants; ///< the variant's dictionary, and a part of its keys
  int64_t headDimQk, headDimV;
  int type, device;

  bool operator==(const KernelKey &) const = default;
  size_t place(size_t count) const {
    auto mixed =
        (reinterpret_cast<uintptr_t>(kernels) ^ reinterpret_cast<uintptr_t>(constants)) / 16;
    return (mixed + size_t(headDimQk + headDimV) + size_t(type)) % count;
  }
};

/// A cache of the last calls' kernels, because a look-up in the dictionary takes a tuple of six
/// objects.
class RecentKernels {
public:
  PyObject *find(const KernelKey &key) const {
    const Entry &entry = entries[key.place(count)];
    return entry.key == key ? entry.kernel : nullptr;
  }
  void keep(const KernelKey &key, PyObject *kernel) {
    Entry &entry = entries[key.place(count)];
    Entry before = std::exchange(entry, {key, Py_NewRef(kernel)});
    Py_INCREF(key.kernels); // so that their addresses are not reused
    Py_INCREF(key.constants);
    before.release();
  }
  void release() {
    for (Entry &entry : entries)
      std::exchange(entry, {}).release();
  }

private:
  struct Entry {
    KernelKey key;
    PyObject *kernel;
    void release() const {
      Py_XDECREF(key.kernels);
      Py_XDECREF(key.constants);
      Py_XDECREF(kernel);
    }
  };
  static constexpr size_t count = 32;
  Entry entries[count]; ///< all zeros in a new object
};

struct EagerObject {
  PyObject_HEAD Framework framework;
  RecentKernels recent;
};

EagerObject &eagerOf(PyObject *self) { return *reinterpret_cast<EagerObject *>(self); }
const Framework &frameworkOf(PyObject *self) { return eagerOf(self).framework; }

PyObject *make(PyTypeObject *type, PyObject *arguments, PyObject *named) {
  Framework framework;
  if (!framework.read(arguments, named))
    return nullptr;
  auto *allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
  PyObject *self = allocate(type, 0);
  if (self)
    reinterpret_cast<EagerObject *>(self)->framework = framework;
  else
    Py_DECREF(framework.owner);
  return self;
}

void destroy(PyObject *object) {
  eagerOf(object).recent.release();
  Py_XDECREF(frameworkOf(object).owner);
  freeObject(object);
}

/// A call's variant, in the form of tesela._variant.Variant, with the call's parameters.
class CalledVariant {
public:
  /// False if it raised.
  bool find(const Framework &framework, PyObject *given) {
    PyObject *known = nullptr;
    if (reinterpret_cast<PyObject *>(Py_TYPE(given)) == framework.variantType)
      known = given;
    else if (PyUnicode_CheckExact(given))
      known = PyDict_GetItemWithError(framework.variants, given);
    if (known)
      variant = Owned(Py_NewRef(known));
    else if (!PyErr_Occurred())
      variant = Owned(PyObject_CallFunctionObjArgs(framework.asVariant, given, nullptr));
    static PyObject *const name = PyUnicode_InternFromString("_for_launch");
    parts = Owned(variant ? PyObject_GetAttr(variant.get(), name) : nullptr);
    return parts && PyTuple_Size(parts.get()) == partCount;
  }

  /// Replaces values of the variant by those of the call; false if it raised.
  bool replace(PyObject *parameters) {
    if (PyDict_Size(parameters) == 0)
      return true;
    Owned replaced(PyTuple_New(PyTuple_Size(values())));
    for (Py_ssize_t slot = 0; replaced && slot < PyTuple_Size(values()); ++slot)
      PyTuple_SetItem(replaced.get(), slot, Py_NewRef(PyTuple_GetItem(values(), slot)));
    PyObject *name, *value;
    for (Py_ssize_t place = 0; replaced && PyDict_Next(parameters, &place, &name, &value);) {
      PyObject *slot = PyDict_GetItemWithError(part(slotsPart), name);
      if (!slot) // a constant, or an unknown name
        return !PyErr_Occurred() && replaceConstants(parameters);
      PyTuple_SetItem(replaced.get(), PyLong_AsSsize_t(slot), Py_NewRef(value));
    }
    ownValues = std::move(replaced);
    return ownValues.get();
  }

  PyObject *object() const { return variant.get(); }
  PyObject *bound() const { return part(0); }
  PyObject *values() const { return ownValues ? ownValues.get() : part(1); }
  PyObject *constants() const { return ownConstants ? ownConstants.get() : part(2); }
  PyObject *kernels() const { return part(3); }

private:
  static constexpr Py_ssize_t slotsPart = 4, partCount = 5;
  Owned variant, parts, ownValues, ownConstants;

  PyObject *part(Py_ssize_t place) const { return PyTuple_GetItem(parts.get(), place); }

  bool replaceConstants(PyObject *parameters) {
    static PyObject *const method = PyUnicode_InternFromString("_arguments");
    Owned both(PyObject_CallMethodObjArgs(object(), method, parameters, nullptr));
    PyObject *forValues, *forConstants;
    if (!both || !PyArg_ParseTuple(both.get(), "O!O!", &PyTuple_Type, &forValues, &PyTuple_Type,
                                   &forConstants))
      return false;
    ownValues = Owned(Py_NewRef(forValues));
    ownConstants = Owned(Py_NewRef(forConstants));
    return true;
  }
};

/// One call. As an Allocator it provides the launch's workspace.
class Call : private Allocator {
public:
  Call(EagerObject &eager, PyObject *const *given)
      : framework(eager.framework),
        recent(eager.recent), given{given[0], given[1], given[2], given[3], given[4],
                                    given[5], given[6], given[7], given[8]} {}

  bool findVariant() { return variant.find(framework, given.variant); }

  Besides lookAround() const { return lookAt(framework, given, variant.bound()); }

  /// Whether kernels exist for such tensors. It raises nothing, because the caller can give a
  /// better message.
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

  /// Launches; false if it raised.
  bool run() {
    int isBshd = PyObject_IsTrue(given.isBshd);
    hasLse = PyObject_IsTrue(given.returnLse);
    device = Owned(PyLong_FromLong(deviceNumber));
    if (isBshd < 0 || hasLse < 0 || !device || !variant.replace(given.parameters))
      return false;
    Owned kernel = findKernel();
    if (!kernel || (!isHost && !chooseEmpty()))
      return false;
    o = given.out == Py_None ? makeOutput() : Owned(Py_NewRef(given.out));
    if (!o || !readTensor(o.get(), "o", views[3], holders[3]))
      return false;
    if (isBshd)
      for (int i = 0; i < 4; ++i)
        swapLengthAndHeads(views[i]);
    lse = hasLse ? makeLse() : Owned(Py_NewRef(Py_None));
    if (!lse || (hasLse && !readTensor(lse.get(), "lse", views[4], holders[4])))
      return false;
    void *stream = nullptr;
    if (!isHost && !readCurrentStream(given.q, deviceNumber, stream))
      return false;
    return launchViews(kernel.get(), views, hasLse, given.scale, variant.values(), stream,
                       isHost ? nullptr : this) &&
           tellOfOutput();
  }

  /// (o, lse or None)
  PyObject *both() const { return PyTuple_Pack(2, o.get(), lse.get()); }
  /// o, or (o, lse) if that was requested.
  PyObject *results() { return hasLse ? both() : o.release(); }

private:
  static constexpr const char *inputNames[] = {"q", "k", "v"};

  const Framework &framework;
  RecentKernels &recent;
  const CallArguments given;
  CalledVariant variant;
  tesela_tensor views[5]; ///< q, k, v, o, lse
  Owned holders[5];
  bool isHost = false, isElsewhere = false;
  int hasLse = 0;
  int deviceNumber = hostDevice;
  Owned device; ///< the number as a Python object
  Owned o, lse;

  Owned findKernel() {
    KernelKey key = {variant.kernels(),   variant.constants(), views[0].extents[3],
                     views[2].extents[3], int(views[0].type),  deviceNumber};
    if (PyObject *found = recent.find(key))
      return Owned(Py_NewRef(found));
    // Takes the kernel from its dictionary, or makes it.
    static PyObject *const method = PyUnicode_InternFromString("_kernel");
    Owned type(PyLong_FromLong(key.type)), headDimQk(PyLong_FromLongLong(key.headDimQk)),
        headDimV(PyLong_FromLongLong(key.headDimV));
    Owned kernel(type && headDimQk && headDimV
                     ? PyObject_CallMethodObjArgs(variant.object(), method, type.get(),
                                                  headDimQk.get(), headDimV.get(), device.get(),
                                                  variant.constants(), nullptr)
                     : nullptr);
    if (kernel)
      recent.keep(key, kernel.get());
    return kernel;
  }

  bool chooseEmpty() {
    Owned current(PyObject_CallNoArgs(framework.currentDevice));
    isElsewhere = current && PyLong_AsLong(current.get()) != deviceNumber;
    return current && !PyErr_Occurred();
  }

  /// A contiguous tensor whose axes lie in memory in the order `order`.
  template <int rank>
  Owned empty(tesela_type type, const int64_t (&extents)[rank], const int (&order)[rank]) const {
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
    PyObject *elements = PyTuple_GetItem(framework.elementTypes, type);
    return Owned(elements
                     ? PyObject_CallFunctionObjArgs(function, shape.get(), strides.get(), elements,
                                                    isElsewhere ? device.get() : nullptr, nullptr)
                     : nullptr);
  }

  /// The output, with the middle axes in the same order in memory as in q.
  Owned makeOutput() {
    const tesela_tensor &q = views[0];
    const int64_t extents[] = {q.extents[0], q.extents[1], q.extents[2], views[2].extents[3]};
    return q.strides[1] < q.strides[2] ? empty(q.type, extents, {0, 2, 1, 3})
                                       : empty(q.type, extents, {0, 1, 2, 3});
  }

  Owned allocate(size_t bytes) const override {
    return empty(TESELA_BOOL, {int64_t(bytes)}, {0}); // elements of one byte
  }

  Owned makeLse() {
    const tesela_tensor &q = views[0];
    return empty(TESELA_F32, {q.extents[0], q.extents[1], q.extents[2]}, {0, 1, 2});
  }

  /// Tells the framework that the caller's tensor was written, because it counts writes.
  bool tellOfOutput() const {
    if (given.out == Py_None)
      return true;
    return Owned(PyObject_CallFunctionObjArgs(framework.written, given.out, nullptr)).get();
  }
};

constexpr Py_ssize_t argumentCount = 9;

PyObject *refuse(const char *method, Py_ssize_t count) {
  return PyErr_Format(PyExc_TypeError, "%s takes %zd arguments, not %zd", method, argumentCount,
                      count);
}

/// launch(q, k, v, variant, scale, return_lse, is_bshd, out, parameters)
PyObject *launch(PyObject *self, PyObject *const *given, Py_ssize_t count) {
  if (count != argumentCount)
    return refuse("launch", count);
  Call call(eagerOf(self), given);
  if (!call.findVariant())
    return nullptr;
  if (!call.readInputs())
    Py_RETURN_NONE;
  return call.run() ? call.both() : nullptr;
}

/// attend(q, k, v, variant, scale, return_lse, is_bshd, out, parameters)
PyObject *attend(PyObject *self, PyObject *const *given, Py_ssize_t count) {
  if (count != argumentCount)
    return refuse("attend", count);
  Call call(eagerOf(self), given);
  if (!call.findVariant())
    return nullptr;
  switch (call.lookAround()) {
  case Besides::Raised:
    return nullptr;
  case Besides::Dispatcher:
    Py_RETURN_NONE;
  case Besides::Rules:
    Py_RETURN_FALSE;
  case Besides::Nothing:
    break;
  }
  if (!call.readInputs())
    Py_RETURN_FALSE;
  return call.run() ? call.results() : nullptr;
}

/// needs_dispatcher(*tensors)
PyObject *needsDispatcher(PyObject *self, PyObject *const *tensors, Py_ssize_t count) {
  Besides found = lookAtTensors(frameworkOf(self), tensors, count);
  return found == Besides::Raised ? nullptr : PyBool_FromLong(found != Besides::Nothing);
}

PyMethodDef methods[] = {
    {"attend", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(attend)), METH_FASTCALL,
     "attend(q, k, v, variant, scale, return_lse, is_bshd, out, parameters): o, or (o, lse). None "
     "where the framework's dispatcher must see the call; False where autograd or autocast has a "
     "rule for it, or no kernel is for such tensors."},
    {"launch", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(launch)), METH_FASTCALL,
     "launch(q, k, v, variant, scale, return_lse, is_bshd, out, parameters): (o, lse or None), "
     "whatever else sees the call; None where no kernel is for such tensors."},
    {"needs_dispatcher",
     reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(needsDispatcher)), METH_FASTCALL,
     "needs_dispatcher(*tensors): whether the framework's dispatcher must see what is done with "
     "them."},
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
