//===- Explain.cpp - Which tiles a kernel computes --------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Uses the C++ API and the command's report and drawing, so that a notebook shows what the command
// prints and draws.
//
//===----------------------------------------------------------------------===//
#include "HostValues.h"
#include "Native.h"

#include "ExplainReport.h"
#include "drawing/SvgCanvas.h"
#include "drawing/TileDrawing.h"

#include <exception>
#include <memory>

namespace tesela::python {

namespace {

PyTypeObject *explanationType;

struct Explained {
  tool::ExplainReport report;
  std::vector<Owned> captured; ///< the tensors and the holders of their views
};

struct ExplanationObject {
  PyObject_HEAD Explained *explained;
};

const Explained &explainedOf(PyObject *self) {
  return *reinterpret_cast<ExplanationObject *>(self)->explained;
}

PyObject *wrap(std::unique_ptr<Explained> explained) {
  auto *allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(explanationType, Py_tp_alloc));
  PyObject *self = allocate(explanationType, 0);
  if (self)
    reinterpret_cast<ExplanationObject *>(self)->explained = explained.release();
  return self;
}

void destroy(PyObject *object) {
  delete reinterpret_cast<ExplanationObject *>(object)->explained;
  freeObject(object);
}

PyObject *describeHead(const Explanation &explanation, size_t index) {
  const HeadTiles &tiles = explanation.map.heads[index];
  return Py_BuildValue(
      "(iiLLLLy#)", int(tiles.batch), int(tiles.head), static_cast<long long>(tiles.counts.empty),
      static_cast<long long>(tiles.counts.partial), static_cast<long long>(tiles.counts.full),
      static_cast<long long>(explanation.keptPairs[index]),
      reinterpret_cast<const char *>(tiles.kinds.data()), Py_ssize_t(tiles.kinds.size()));
}

PyObject *describe(PyObject *self, PyObject *) {
  const Explanation &explanation = explainedOf(self).report.explanation;
  const TileMap &map = explanation.map;
  Owned heads(PyList_New(0));
  for (size_t i = 0; heads && i < map.heads.size(); ++i) {
    Owned item(describeHead(explanation, i));
    if (!item || PyList_Append(heads.get(), item.get()) < 0)
      return nullptr;
  }
  if (!heads)
    return nullptr;
  static const char *const forms[] = {"every tile", "key ranges", "classified tiles"};
  return Py_BuildValue(
      "{s:s,s:s,s:s,s:L,s:L,s:L,s:L,s:L,s:s,s:s,s:N}", "variant", explanation.variantName.c_str(),
      "target", explanation.target.c_str(), "schedule", explanation.schedule.c_str(), "block_m",
      static_cast<long long>(map.blockM), "block_n", static_cast<long long>(map.blockN), "rows",
      static_cast<long long>(map.rows), "columns", static_cast<long long>(map.columns), "cell",
      static_cast<long long>(map.cell), "form", forms[int(map.form)], "lost_proofs",
      explanation.lostProofs.c_str(), "heads", heads.release());
}

PyObject *text(PyObject *self, PyObject *) {
  return guarded([&] {
    std::string text = tool::formatText(explainedOf(self).report);
    return PyUnicode_FromStringAndSize(text.data(), Py_ssize_t(text.size()));
  });
}

PyObject *svg(PyObject *self, PyObject *) {
  return guarded([&] {
    std::string file;
    {
      WithoutGil others; // drawing evaluates the mask for hundreds of thousands of pairs
      tool::TileDrawing drawing(explainedOf(self).report);
      tool::SvgCanvas canvas(drawing.width(), drawing.height());
      drawing.draw(canvas);
      file = canvas.file();
    }
    return PyUnicode_FromStringAndSize(file.data(), Py_ssize_t(file.size()));
  });
}

PyMethodDef methods[] = {
    {"describe", describe, METH_NOARGS, "What is known, as a dictionary."},
    {"text", text, METH_NOARGS, "The report, as `tesela explain` prints it."},
    {"svg", svg, METH_NOARGS, "The picture, as `tesela explain --svg` draws it."},
    {}};
PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char *>("What each tile of a launch is to its kernel.")},
    {Py_tp_dealloc, reinterpret_cast<void *>(destroy)},
    {Py_tp_methods, methods},
    {}};
PyType_Spec spec = {"tesela._native.Explanation", sizeof(ExplanationObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

} // namespace

PyObject *explain(const VariantObject &variant, const tesela_kernel_options &given,
                  const tesela_sizes &sizes, const char *target, PyObject *values) {
  return guarded([&]() -> PyObject * {
    auto explained = std::make_unique<Explained>();
    KernelOptions options;
    options.variantText = given.variant;
    options.variantFile = given.variant_file;
    options.inputType = ElementType(given.input_type);
    options.headDimQk = given.head_dim_qk;
    options.headDimV = given.head_dim_v;
    options.expectedLength = sizes.kv_length;
    options.expectedQueries = sizes.length;
    options.target = target;
    options.schedule = given.schedule;
    for (size_t i = 0; i < given.constant_count; ++i)
      options.constants.push_back({given.constants[i].name, given.constants[i].scalar});
    ExplainArguments arguments;
    arguments.batch = sizes.batch;
    arguments.heads = sizes.heads;
    arguments.kvHeads = sizes.kv_heads;
    arguments.length = sizes.length;
    arguments.kvLength = sizes.kv_length;
    if (!readHostValues(variant, values, explained->captured, arguments))
      return nullptr;
    std::optional<Result<Explanation>> made;
    {
      WithoutGil others;
      made = tesela::explain(options, arguments);
    }
    if (!*made)
      return raiseError(made->error());
    explained->report = {
        .variantPath = given.variant_file,
        .extents = {sizes.batch, sizes.heads, sizes.kv_heads, sizes.length, sizes.kv_length},
        .Dqk = given.head_dim_qk,
        .Dv = given.head_dim_v,
        .type = options.inputType,
        .explanation = std::move(**made)};
    return wrap(std::move(explained));
  });
}

bool addExplanationType(PyObject *module) {
  return addType(module, spec, "Explanation", explanationType);
}

} // namespace tesela::python
