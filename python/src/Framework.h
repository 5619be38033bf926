//===- Framework.h - What an eager call asks of a framework ------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_PYTHON_FRAMEWORK_H
#define TESELA_PYTHON_FRAMEWORK_H

#include "Native.h"

namespace tesela::python {

/// A framework's functions and types, as Eager's constructor names them.
struct Framework {
  // Allocation.
  PyObject *elementTypes;  ///< a tuple of its element types, by the library's number
  PyObject *emptyHost;     ///< (shape, strides, type), in the host's memory
  PyObject *emptyCuda;     ///< likewise, on the current GPU
  PyObject *currentDevice; ///< (), the current GPU's number
  PyObject *emptyOn;       ///< (shape, strides, type, device), on any GPU
  PyObject *written;       ///< (tensor), told of a tensor of the caller's that was written
  // What may be asked for besides a launch.
  PyObject *tensorTypes;   ///< a tuple of the types of tensors without rules of their own
  PyObject *isPending;     ///< (tensor), whether its memory is not yet what it stands for
  PyObject *observers;     ///< a tuple of functions (); what one gives is true where calls are seen
  PyObject *forwardMode;   ///< what has the level of forward-mode differentiation as an attribute
  PyObject *isGradEnabled; ///< ()
  PyObject *isAutocasting; ///< ()
  // Variants.
  PyObject *variantType;
  PyObject *variants;  ///< a dictionary of those that were met, by the strings that stand for them
  PyObject *asVariant; ///< (source), of any other source

  PyObject *owner; ///< of all these

  /// From the arguments of a constructor, all by name; false where it raised.
  bool read(PyObject *arguments, PyObject *named);
};

/// What a call is besides a launch.
enum class Besides {
  Nothing,
  Rules,      ///< of differentiation or of autocast
  Dispatcher, ///< whatever the framework's dispatcher does: something sees the call
  Raised,     ///< looking at it raised an exception
};

/// A call's own arguments.
struct CallArguments {
  PyObject *q, *k, *v, *variant, *scale, *returnLse, *isBshd, *out, *parameters;
};

/// What there is to do beside a launch of these arguments. `bound` is a dictionary, of the
/// variant's values.
Besides lookAt(const Framework &framework, const CallArguments &given, PyObject *bound);

/// Whether the framework's dispatcher must see what is done with these tensors, some of which may
/// be None: Nothing, Dispatcher or Raised.
Besides lookAtTensors(const Framework &framework, PyObject *const *tensors, Py_ssize_t count);

} // namespace tesela::python

#endif // TESELA_PYTHON_FRAMEWORK_H
