//===- KeptCells.cpp - Which cells of a mask keep pairs ---------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "HostValues.h"
#include "Native.h"

#include "tesela/KeptCells.h"

#include <optional>

namespace tesela::python {

namespace {

PyTypeObject *keptCellsType;

struct KeptCellsObject {
  PyObject_HEAD KeptCells *cells;
  PyObject *variant; ///< Variant
};

/// KeptCells(variant, constants, cell, tile, threads)
PyObject *make(PyTypeObject *type, PyObject *arguments, PyObject *) {
  PyObject *variant, *constants;
  long long cell, tile;
  int threads;
  if (!PyArg_ParseTuple(arguments, "OO!LLi", &variant, &PyTuple_Type, &constants, &cell, &tile,
                        &threads))
    return nullptr;
  auto *text = static_cast<VariantObject *>(asObject(variant, variantType, "Variant"));
  if (!text)
    return nullptr;
  return guarded([&]() -> PyObject * {
    KernelOptions options;
    const char *textUtf8 = PyUnicode_AsUTF8AndSize(text->text, nullptr);
    const char *fileUtf8 = textUtf8 ? PyUnicode_AsUTF8AndSize(text->file, nullptr) : nullptr;
    if (!fileUtf8)
      return nullptr;
    options.variantText = textUtf8;
    options.variantFile = fileUtf8;
    for (Py_ssize_t i = 0; i < PyTuple_Size(constants); ++i) {
      const char *name;
      double value;
      if (!PyArg_ParseTuple(PyTuple_GetItem(constants, i), "sd", &name, &value))
        return nullptr;
      options.constants.push_back({name, value});
    }
    std::optional<Result<KeptCells>> made;
    {
      WithoutGil others;
      made.emplace(KeptCells::create(options, cell, tile, threads));
    }
    if (!*made)
      return raiseError(made->error());
    auto *allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
    auto *self = reinterpret_cast<KeptCellsObject *>(allocate(type, 0));
    if (!self)
      return nullptr;
    self->cells = new KeptCells(std::move(**made));
    self->variant = Py_NewRef(variant);
    return reinterpret_cast<PyObject *>(self);
  });
}

void destroy(PyObject *object) {
  auto *self = reinterpret_cast<KeptCellsObject *>(object);
  delete self->cells;
  Py_XDECREF(self->variant);
  freeObject(object);
}

PyObject *deciding(PyObject *self, void *) {
  const std::vector<std::string> &names =
      reinterpret_cast<KeptCellsObject *>(self)->cells->deciding();
  PyObject *result = PyTuple_New(Py_ssize_t(names.size()));
  for (size_t i = 0; result && i < names.size(); ++i) {
    PyObject *name = PyUnicode_FromString(names[i].c_str());
    if (!name || PyTuple_SetItem(result, Py_ssize_t(i), name) < 0) {
      Py_DECREF(result);
      return nullptr;
    }
  }
  return result;
}

/// (batches, heads)
PyObject *tellsApart(PyObject *self, void *) {
  const KeptCells &cells = *reinterpret_cast<KeptCellsObject *>(self)->cells;
  return Py_BuildValue("NN", PyBool_FromLong(cells.tellsBatches()),
                       PyBool_FromLong(cells.tellsHeads()));
}

/// The counts as a tuple; null if it raised.
PyObject *asTuple(const CellCounts &counts, PyObject *work) {
  Owned sums(PyList_New(Py_ssize_t(counts.rows)));
  for (size_t row = 0; sums && row < counts.sums.size(); ++row) {
    PyObject *sum = PyLong_FromUnsignedLongLong(counts.sums[row]);
    if (!sum || PyList_SetItem(sums.get(), Py_ssize_t(row), sum) < 0)
      return nullptr;
  }
  Owned needs(PyBytes_FromStringAndSize(reinterpret_cast<const char *>(counts.needs.data()),
                                        Py_ssize_t(counts.needs.size() * sizeof(uint64_t))));
  if (!sums || !needs)
    return nullptr;
  return Py_BuildValue("LLONN", static_cast<long long>(counts.rows),
                       static_cast<long long>(counts.columns), work, sums.release(),
                       needs.release());
}

/// count(sizes, values)
PyObject *count(PyObject *object, PyObject *arguments) {
  auto *self = reinterpret_cast<KeptCellsObject *>(object);
  PyObject *values;
  long long sizes[5];
  if (!PyArg_ParseTuple(arguments, "(LLLLL)O!", &sizes[0], &sizes[1], &sizes[2], &sizes[3],
                        &sizes[4], &PyTuple_Type, &values))
    return nullptr;
  return guarded([&]() -> PyObject * {
    ExplainArguments launch;
    launch.batch = sizes[0];
    launch.heads = sizes[1];
    launch.kvHeads = sizes[2];
    launch.length = sizes[3];
    launch.kvLength = sizes[4];
    std::vector<Owned> captured;
    if (!readHostValues(*reinterpret_cast<VariantObject *>(self->variant), values, captured,
                        launch))
      return nullptr;
    Owned work;
    std::optional<Result<CellCounts>> counts;
    // The threads write into the memory of a bytearray: it is a megabyte, and a copy would take as
    // long as a part of the count.
    auto memory = [&](size_t cells) -> uint32_t * {
      PyGILState_STATE gil = PyGILState_Ensure();
      work = Owned(PyByteArray_FromStringAndSize(nullptr, Py_ssize_t(cells * sizeof(uint32_t))));
      PyErr_Clear(); // the count fails with an error of its own
      void *bytes = work ? PyByteArray_AsString(work.get()) : nullptr;
      PyGILState_Release(gil);
      return static_cast<uint32_t *>(bytes);
    };
    {
      WithoutGil others;
      counts.emplace(self->cells->count(launch, memory));
    }
    return *counts ? asTuple(**counts, work.get()) : raiseError(counts->error());
  });
}

PyMethodDef methods[] = {
    {"count", count, METH_VARARGS,
     "count((batch, heads, kv_heads, length, kv_length), values): (rows, columns, u32 of each "
     "cell, their sum of each row, u64 of each row: a bit for each cell that is not 0)."},
    {}};
PyGetSetDef getters[] = {{"deciding", deciding, nullptr,
                          "The names of the parameters that decide what is kept.", nullptr},
                         {"tells_apart", tellsApart, nullptr,
                          "Whether batches, and heads, may keep different pairs.", nullptr},
                         {}};
PyType_Slot slots[] = {
    {Py_tp_doc,
     const_cast<char *>("KeptCells(variant, constants, cell, tile, threads): what a mask keeps "
                        "of a sequence, cell by cell.")},
    {Py_tp_new, reinterpret_cast<void *>(make)},
    {Py_tp_dealloc, reinterpret_cast<void *>(destroy)},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {}};
PyType_Spec spec = {"tesela._native.KeptCells", sizeof(KeptCellsObject), 0, Py_TPFLAGS_DEFAULT,
                    slots};

} // namespace

bool addKeptCellsType(PyObject *module) {
  return addType(module, spec, "KeptCells", keptCellsType);
}

} // namespace tesela::python
