//===- KernelObject.h - What launches of a kernel share ---------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_PYTHON_KERNELOBJECT_H
#define TESELA_PYTHON_KERNELOBJECT_H

#include "Native.h"

#include <atomic>
#include <memory>
#include <new>
#include <vector>

namespace tesela::python {

/// How many buckets of lengths have a compilation of their own.
constexpr int bucketCount = 10;

/// A parameter of a launch.
struct Slot {
  const char *name;
  bool isCapture, hasDefault;
  double standard;
};

/// What an object of Python's holds; made and destroyed with it.
struct Kernel {
  ContextObject *context;
  VariantObject *variant;
  tesela_kernel_options options; ///< without what a bucket expects
  std::unique_ptr<tesela_parameter[]> constants;
  std::unique_ptr<const char *[]> bindings;
  std::unique_ptr<Slot[]> slots;              ///< the parameters of a launch
  Py_ssize_t slotCount = 0, captureCount = 0; ///< the captures are the variant's alone
  PyObject *schedule = nullptr, *algorithm = nullptr, *constantNames = nullptr,
           *bindingTexts = nullptr; ///< their texts
  std::atomic<tesela_kernel *> ofBucket[bucketCount] = {};
  std::vector<tesela_kernel *> retired; ///< were of a bucket; threads may launch them still
  bool hasTiers[bucketCount] = {};      ///< whether they may begin with a simple schedule
  bool isSettled[bucketCount] = {};     ///< of these: nothing is to be told any more

  ~Kernel() {
    for (auto &kernel : ofBucket)
      tesela_kernel_destroy(kernel);
    for (tesela_kernel *kernel : retired)
      tesela_kernel_destroy(kernel);
    Py_XDECREF(reinterpret_cast<PyObject *>(variant));
    Py_XDECREF(reinterpret_cast<PyObject *>(context));
    Py_XDECREF(schedule);
    Py_XDECREF(algorithm);
    Py_XDECREF(constantNames);
    Py_XDECREF(bindingTexts);
  }
};

struct KernelObject {
  PyObject_HEAD Kernel *kernel;
};

inline Kernel &kernelOf(PyObject *self) { return *reinterpret_cast<KernelObject *>(self)->kernel; }

/// Which of a kernel's compilations launches of these lengths run.
int bucketFor(const Kernel &kernel, int64_t queries, int64_t keys);

/// The values of a launch's parameters, by slot.
class Values {
public:
  /// A value for each.
  bool read(const Kernel &kernel, PyObject *values) { return read(kernel, values, true); }
  /// None is left out.
  bool readGiven(const Kernel &kernel, PyObject *values) { return read(kernel, values, false); }
  /// Behind those that were read: a number or a tensor of the template's; false where it raised.
  bool add(const char *name, PyObject *value);
  const tesela_parameter *data() const { return parameters; }
  size_t size() const { return count; }

private:
  static constexpr int usual = 8;
  static constexpr Py_ssize_t ofTemplate = 5; ///< parameters that add() has room for
  size_t count = 0;
  Py_ssize_t most = usual;
  tesela_parameter few[usual], *parameters = few;
  tesela_tensor fewTensors[usual], *tensors = fewTensors;
  Owned fewHolders[usual], *holders = fewHolders;
  std::unique_ptr<tesela_parameter[]> many;
  std::unique_ptr<tesela_tensor[]> manyTensors;
  std::unique_ptr<Owned[]> manyHolders;

  bool read(const Kernel &kernel, PyObject *values, bool areAllNeeded);
  bool reserve(Py_ssize_t count);
  bool readOne(const Slot &slot, PyObject *value);
};

/// None is no scale; false where it raised.
bool readScale(PyObject *scale, tesela_tensor_arguments &given);

/// A function of Python's, of a number of bytes.
class AllocatingFunction : public Allocator {
public:
  explicit AllocatingFunction(PyObject *function) : function(function) {}
  Owned allocate(size_t bytes) const override {
    Owned size(PyLong_FromSize_t(bytes));
    return Owned(size ? PyObject_CallFunctionObjArgs(function, size.get(), nullptr) : nullptr);
  }

private:
  PyObject *function;
};

/// Launches the kernel of the lengths, which is compiled where it is not there; false where it
/// raised. With an allocator it gives device memory, where the launch needs some.
bool run(Kernel &kernel, tesela_tensor_arguments &arguments, int64_t queries, int64_t keys,
         void *stream, const Allocator *allocator);

/// launch_named(names, tensors, scale, values, others, extents, is_bshd, stream, allocate)
PyObject *launchNamed(PyObject *self, PyObject *const *arguments, Py_ssize_t count);

} // namespace tesela::python

#endif // TESELA_PYTHON_KERNELOBJECT_H
