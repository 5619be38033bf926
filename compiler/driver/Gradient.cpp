//===- Gradient.cpp - The derivatives of a variant as text ----------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tesela/compiler/Gradient.h"

#include "driver/LargeStack.h"
#include "frontend/emit/Emit.h"
#include "frontend/emit/ExpressionText.h"
#include "transforms/ReverseSweep.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"

#include <fmt/format.h>

#include <map>

using namespace mlir;

namespace tesela {
namespace {

/// An attn.partial, with the attn.rounds around it.
struct Found {
  attn::PartialOp partial;
  SmallVector<attn::RoundsOp> rounds;
};

void find(Block &block, SmallVector<attn::RoundsOp> &around, std::vector<Found> &found) {
  for (Operation &op : block) {
    if (auto partial = dyn_cast<attn::PartialOp>(op)) {
      found.push_back({partial, around});
    } else if (auto rounds = dyn_cast<attn::RoundsOp>(op)) {
      around.push_back(rounds);
      find(rounds.getBody().front(), around, found);
      around.pop_back();
    }
  }
}

/// Whether the value of `root` depends on parameter `number` as an f32.
bool isComputedFrom(const Variant &variant, NodeId root, int32_t number) {
  return llvm::any_of(variant.nodesOf(root), [&](NodeId id) {
    const Node &node = variant.nodes[id];
    return (node.op == Operator::scalar || node.op == Operator::read) && node.integer == number;
  });
}

Result<Derivatives> textsOf(const Variant &variant, NodeId root, attn::VariantOp op, Block &body,
                            const char *what, std::string_view source) {
  std::vector<Found> found;
  SmallVector<attn::RoundsOp> around;
  find(body, around, found);
  SmallVector<Value> roots;
  for (Found &each : found) {
    for (attn::RoundsOp rounds : each.rounds)
      roots.push_back(rounds.getBound());
    llvm::append_range(roots, each.partial->getOperands());
  }
  ExpressionText text(op, body, roots);
  if (!text.isWithinLimits()) {
    Diagnostics diagnostics(source, variant.file);
    diagnostics.error(
        {variant.nodes[root].location, 1},
        fmt::format("the derivatives of this {} have more than 8192 operators, numbers "
                    "and names, or are nested too deeply; put parts of it into a "
                    "captured tensor",
                    what));
    return Error(Code::unsupported, diagnostics.render());
  }
  Derivatives result;
  result.lets = text.lets();
  std::map<std::string, std::vector<PartialDerivative>> byName;
  for (Found &each : found) {
    PartialDerivative partial{.by = each.partial.getName().str(),
                              .indices = {},
                              .rounds = {},
                              .text = text.text(each.partial.getValue(), each.rounds)};
    for (Value index : each.partial.getIndices())
      partial.indices.push_back(text.text(index, each.rounds));
    for (size_t depth = 1; depth <= each.rounds.size(); ++depth)
      partial.rounds.push_back(text.round(ArrayRef(each.rounds).take_front(depth)));
    byName[partial.by].push_back(std::move(partial));
  }
  auto add = [&](const std::string &name) {
    auto known = byName.find(name);
    if (known == byName.end())
      result.partials.push_back({.by = name, .indices = {}, .rounds = {}, .text = "0"});
    else
      llvm::append_range(result.partials, known->second);
  };
  if (body.getNumArguments() == 6)
    add("s");
  for (bool isCapture : {false, true})
    for (size_t number = 0; number < variant.parameters.size(); ++number) {
      const Parameter &parameter = variant.parameters[number];
      if (parameter.isCapture == isCapture && elementScalar(parameter.type) == ScalarType::f32 &&
          isComputedFrom(variant, root, int32_t(number)))
        add(parameter.name);
    }
  return result;
}

/// Notes for each int() and floor in the score and the sink whose operand has a derivative.
std::string notesOf(const Variant &variant, std::string_view text) {
  std::vector<bool> isNoted(variant.nodes.size());
  Diagnostics diagnostics(text, variant.file);
  for (NodeId root : {variant.score, variant.sink}) {
    if (root == kInvalid)
      continue;
    // Whether a value has a derivative other than 0.
    std::vector<bool> varies(variant.nodes.size());
    for (NodeId id : variant.nodesOf(root)) {
      const Node &node = variant.nodes[id];
      bool isVariable =
          node.op == Operator::score || node.op == Operator::scalar || node.op == Operator::read;
      bool ends = node.op == Operator::floor || node.op == Operator::toInt;
      bool fromOperands = llvm::any_of(node.operands, [&](NodeId each) { return varies[each]; });
      if (ends && fromOperands && !isNoted[id]) {
        isNoted[id] = true;
        diagnostics.note({node.location, node.op == Operator::floor ? 5 : 3},
                         node.op == Operator::floor
                             ? "no derivative passes through floor, which is constant between its "
                               "steps"
                             : "no derivative passes through int(), which is constant between its "
                               "steps");
      }
      varies[id] = node.type == ScalarType::f32 && !ends && (isVariable || fromOperands);
    }
  }
  return diagnostics.render();
}

Result<VariantGradient> gradientHere(const Variant &variant, std::string_view text) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  Diagnostics diagnostics(text, variant.file);
  ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    SourceLocation place = variant.location;
    if (auto location = dyn_cast<FileLineColLoc>(diagnostic.getLocation()))
      place = {int(location.getLine()), int(location.getColumn())};
    diagnostics.error({place, 1}, diagnostic.str());
    return success();
  });
  OwningOpRef<ModuleOp> module = emitVariant(variant, context);
  auto op = *module->getOps<attn::VariantOp>().begin();
  FailureOr<attn::GradientOp> gradient = differentiate(op);
  // Each op of the language has a rule, so the only possible failure is that the result is too
  // large.
  if (failed(gradient))
    return Error(Code::unsupported, diagnostics.render());
  VariantGradient result;
  result.name = variant.name;
  Result<Derivatives> ofScore =
      textsOf(variant, variant.score, op, gradient->getScore().front(), "score", text);
  if (!ofScore)
    return ofScore.error();
  result.score = std::move(*ofScore);
  if (variant.sink != kInvalid) {
    Result<Derivatives> ofSink =
        textsOf(variant, variant.sink, op, gradient->getSink().front(), "sink", text);
    if (!ofSink)
      return ofSink.error();
    result.sink = std::move(*ofSink);
  }
  result.notes = notesOf(variant, text);
  return result;
}

} // namespace

Result<VariantGradient> gradientOf(const Variant &variant, std::string_view text) {
  return onLargeStack([&] { return gradientHere(variant, text); });
}

} // namespace tesela
