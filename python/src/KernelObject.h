//===- KernelObject.h - Shared by launches of a kernel ----------*- C++ -*-===//
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

/// How many buckets of lengths have a separate compilation.
constexpr int bucketCount = 10;

/// A parameter of a launch.
struct Slot {
  const char *name;
  bool isCapture, hasDefault;
  double standard;
};

/// The contents of a Python Kernel object; made and destroyed with it.
struct Kernel {
  ContextObject *context;
  VariantObject *variant;
  tesela_kernel_options options; ///< without the expected lengths of a bucket
  std::unique_ptr<tesela_parameter[]> constants;
  std::unique_ptr<const char *[]> bindings;
  std::unique_ptr<Slot[]> slots;              ///< the parameters of a launch
  Py_ssize_t slotCount = 0, captureCount = 0; ///< captureCount counts only the variant's captures
  PyObject *schedule = nullptr, *algorithm = nullptr, *constantNames = nullptr,
           *bindingTexts = nullptr; ///< owners of texts in `options`
  std::atomic<tesela_kernel *> ofBucket[bucketCount] = {};
  std::vector<tesela_kernel *> retired; ///< former kernels of a bucket; threads may still launch
                                        ///< them
  bool hasTiers[bucketCount] = {};      ///< whether the bucket's kernel may start with a simple
                                        ///< schedule
  bool isSettled[bucketCount] = {};     ///< for buckets with tiers: nothing more has to be reported

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

/// The bucket whose kernel launches with these lengths run.
int bucketFor(const Kernel &kernel, int64_t queries, int64_t keys);

/// The values of a launch's parameters, by slot.
class Values {
public:
  /// Reads a value for each parameter.
  bool read(const Kernel &kernel, PyObject *values) { return read(kernel, values, true); }
  /// Reads the given values. None means that the parameter is left out.
  bool readGiven(const Kernel &kernel, PyObject *values) { return read(kernel, values, false); }
  /// Appends a number or a tensor of the template; false if it raised.
  bool add(const char *name, PyObject *value);
  const tesela_parameter *data() const { return parameters; }
  size_t size() const { return count; }

private:
  static constexpr int usual = 8;
  static constexpr Py_ssize_t ofTemplate = 5; ///< how many parameters add() can append
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

/// Sets the scale; None sets none. False if it raised.
bool readScale(PyObject *scale, tesela_tensor_arguments &given);

/// Allocates by a Python function of a number of bytes.
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

/// Launches the kernel for the lengths, compiling it first if necessary; false if it raised.
/// `allocator`, if given, provides device memory that the launch needs.
bool run(Kernel &kernel, tesela_tensor_arguments &arguments, int64_t queries, int64_t keys,
         void *stream, const Allocator *allocator);

/// launch_named(names, tensors, scale, values, others, extents, is_bshd, stream, allocate)
PyObject *launchNamed(PyObject *self, PyObject *const *arguments, Py_ssize_t count);

} // namespace tesela::python

#endif // TESELA_PYTHON_KERNELOBJECT_H
