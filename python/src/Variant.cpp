//===- Variant.cpp - A checked text -----------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "Native.h"

namespace tesela::python {

PyTypeObject *variantType;

namespace {

/// Variant(text, file)
PyObject *make(PyTypeObject *type, PyObject *arguments, PyObject *) {
  PyObject *text, *file;
  if (!PyArg_ParseTuple(arguments, "UU", &text, &file))
    return nullptr;
  const char *textUtf8 = PyUnicode_AsUTF8AndSize(text, nullptr);
  const char *fileUtf8 = textUtf8 ? PyUnicode_AsUTF8AndSize(file, nullptr) : nullptr;
  if (!fileUtf8)
    return nullptr;
  tesela_variant *variant;
  if (tesela_variant_check(textUtf8, fileUtf8, &variant) != TESELA_OK)
    return raiseLast();
  auto *allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
  auto *self = reinterpret_cast<VariantObject *>(allocate(type, 0));
  if (!self) {
    tesela_variant_destroy(variant);
    return nullptr;
  }
  Py_INCREF(text);
  Py_INCREF(file);
  self->variant = variant;
  self->text = text;
  self->file = file;
  return reinterpret_cast<PyObject *>(self);
}

void destroy(PyObject *object) {
  auto *self = reinterpret_cast<VariantObject *>(object);
  tesela_variant_destroy(self->variant);
  Py_XDECREF(self->text);
  Py_XDECREF(self->file);
  freeObject(object);
}

tesela_variant *variantOf(PyObject *self) {
  return reinterpret_cast<VariantObject *>(self)->variant;
}

PyObject *name(PyObject *self, void *) {
  return PyUnicode_FromString(tesela_variant_name(variantOf(self)));
}

PyObject *warnings(PyObject *self, void *) {
  return PyUnicode_FromString(tesela_variant_warnings(variantOf(self)));
}

PyObject *text(PyObject *self, void *) {
  PyObject *text = reinterpret_cast<VariantObject *>(self)->text;
  Py_INCREF(text);
  return text;
}

PyObject *extentsOf(const tesela_parameter_info &info) {
  Owned extents(PyTuple_New(info.rank));
  for (int axis = 0; extents && axis < info.rank; ++axis) {
    const tesela_extent &extent = info.extents[axis];
    PyObject *item = Py_BuildValue("(sii)", extent.name, extent.coefficient, extent.offset);
    if (!item || PyTuple_SetItem(extents.get(), axis, item) < 0)
      return nullptr;
  }
  return extents.release();
}

/// A tuple of (name, type, is a capture, is constant, default or None, extents).
PyObject *parameters(PyObject *self, void *) {
  tesela_variant *variant = variantOf(self);
  Owned list(PyTuple_New(Py_ssize_t(tesela_variant_parameter_count(variant))));
  for (Py_ssize_t i = 0; list && i < PyTuple_Size(list.get()); ++i) {
    auto info = sized<tesela_parameter_info>();
    if (tesela_variant_parameter(variant, size_t(i), &info) != TESELA_OK)
      return raiseLast();
    Owned extents(extentsOf(info));
    Owned standard(info.has_default ? PyFloat_FromDouble(info.default_value) : Py_NewRef(Py_None));
    if (!extents || !standard)
      return nullptr;
    PyObject *item =
        Py_BuildValue("(siNNOO)", info.name, int(info.type), PyBool_FromLong(info.is_capture),
                      PyBool_FromLong(info.is_constant), standard.get(), extents.get());
    if (!item || PyTuple_SetItem(list.get(), i, item) < 0)
      return nullptr;
  }
  return list.release();
}

PyGetSetDef attributes[] = {
    {"name", name, nullptr, "The variant's name.", nullptr},
    {"warnings", warnings, nullptr, "What the compiler warns of, \"\" where nothing.", nullptr},
    {"text", text, nullptr, "The text, as it was given.", nullptr},
    {"parameters", parameters, nullptr,
     "(name, type, is a capture, is constant, default, extents) of each, in order.", nullptr},
    {}};

PyType_Slot slots[] = {{Py_tp_doc, const_cast<char *>("A variant's text, parsed and checked.")},
                       {Py_tp_new, reinterpret_cast<void *>(make)},
                       {Py_tp_dealloc, reinterpret_cast<void *>(destroy)},
                       {Py_tp_getset, attributes},
                       {}};
PyType_Spec spec = {"tesela._native.Variant", sizeof(VariantObject), 0, Py_TPFLAGS_DEFAULT, slots};

} // namespace

bool addVariantType(PyObject *module) { return addType(module, spec, "Variant", variantType); }

} // namespace tesela::python
