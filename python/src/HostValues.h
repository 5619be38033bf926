//===- HostValues.h - A launch's parameters in host memory -------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_PYTHON_HOSTVALUES_H
#define TESELA_PYTHON_HOSTVALUES_H

#include "Native.h"

#include "tesela/Explain.h"

#include <exception>
#include <vector>

namespace tesela::python {

/// Reads the scalars and captures of `arguments` from `values`, by slot as in a launch; false if it
/// raised. `captured` gets the tensors and the holders of their views.
bool readHostValues(const VariantObject &variant, PyObject *values, std::vector<Owned> &captured,
                    ExplainArguments &arguments);

/// Raises an error of the C++ API and returns null.
PyObject *raiseError(const Error &error);

/// Runs `body`. No exception reaches Python's C code.
template <typename Body> PyObject *guarded(Body body) {
  try {
    return body();
  } catch (const std::exception &) { // only std::bad_alloc is possible
    return PyErr_NoMemory();
  }
}

} // namespace tesela::python

#endif // TESELA_PYTHON_HOSTVALUES_H
