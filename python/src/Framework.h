//===- Framework.h - How an eager call uses a framework ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_PYTHON_FRAMEWORK_H
#define TESELA_PYTHON_FRAMEWORK_H

#include "Native.h"

namespace tesela::python {

/// A framework's functions and types, with the names of the parameters of Eager's constructor.
struct Framework {
  // Allocation.
  PyObject *elementTypes;  ///< a tuple of its element types, in the order of tesela_type
  PyObject *emptyHost;     ///< (shape, strides, type), in host memory
  PyObject *emptyCuda;     ///< (shape, strides, type), on the current GPU
  PyObject *currentDevice; ///< (), the current GPU's number
  PyObject *emptyOn;       ///< (shape, strides, type, device), on any GPU
  PyObject *written;       ///< (tensor), called after a caller's tensor was written
  // To find out whether a call needs more than a launch.
  PyObject *tensorTypes;   ///< a tuple of the types of tensors without special rules
  PyObject *isPending;     ///< (tensor), whether its memory does not have its values yet
  PyObject *observers;     ///< a tuple of functions (); a true result means that calls are observed
  PyObject *forwardMode;   ///< an object whose attribute is the level of forward-mode
                           ///< differentiation
  PyObject *isGradEnabled; ///< ()
  PyObject *isAutocasting; ///< ()
  // Variants.
  PyObject *variantType;
  PyObject *variants;  ///< a dictionary from source texts to known variants
  PyObject *asVariant; ///< (source), makes a variant of any other source

  PyObject *owner; ///< owns all of these

  /// Reads the arguments of a constructor, all by name; false if it raised.
  bool read(PyObject *arguments, PyObject *named);
};

/// What a call needs in addition to a launch.
enum class Besides {
  Nothing,
  Rules,      ///< rules of differentiation or of autocast
  Dispatcher, ///< the framework's dispatcher, because something observes the call
  Raised,     ///< finding out raised an exception
};

/// The arguments of a call.
struct CallArguments {
  PyObject *q, *k, *v, *variant, *scale, *returnLse, *isBshd, *out, *parameters;
};

/// What a call with these arguments needs in addition to a launch. `bound` is a dictionary with the
/// variant's bound values.
Besides lookAt(const Framework &framework, const CallArguments &given, PyObject *bound);

/// Whether the framework's dispatcher must see operations on these tensors, some of which may be
/// None. Returns Nothing, Dispatcher or Raised.
Besides lookAtTensors(const Framework &framework, PyObject *const *tensors, Py_ssize_t count);

} // namespace tesela::python

#endif // TESELA_PYTHON_FRAMEWORK_H
