//===- Sema.h - Names and types of a variant --------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The parser calls these while it reads; each call checks and adds one node.
// kInvalid stands for a value that was diagnosed already: what is built from it
// is invalid too, without another word.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_FRONTEND_SEMA_H
#define TESELA_FRONTEND_SEMA_H

#include "frontend/Diagnostics.h"
#include "frontend/Lexer.h"
#include "frontend/Variant.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tesela {

/// What the expression being read is for: `s` is in scope in a score, and in a
/// let that only scores use; `k` is not in a sink.
enum class Statement { let, mask, score, sink };

class Sema {
public:
  Sema(Variant &variant, Diagnostics &diagnostics);

  // Declarations. Each takes the name's token and diagnoses a name that is taken.
  void declareScalar(const Token &name, Parameter parameter);
  /// `extents`: a token an axis, the extent's name; null where it is a number. Names that are no
  /// extents of the launch are values from here on.
  void declareCapture(const Token &name, Parameter parameter,
                      const std::vector<const Token *> &extents);
  void declareLet(const Token &name, NodeId value);
  void setMask(const Token &keyword, NodeId value);
  void setScore(const Token &keyword, NodeId value, bool exact);
  void setSink(const Token &keyword, NodeId value);
  void beginStatement(Statement statement) { statement_ = statement; }
  /// Fills in the defaults of score and mask; warns of what nothing uses.
  void finish();

  // Expressions.
  NodeId literal(const Token &token, bool negative);
  NodeId name(const Token &name);
  NodeId read(const Token &name, const std::vector<NodeId> &indices);
  NodeId call(const Token &name, const std::vector<NodeId> &arguments);
  NodeId unary(const Token &op, NodeId operand);
  NodeId binary(const Token &op, NodeId left, NodeId right);
  NodeId select(const Token &question, NodeId condition, NodeId whereTrue, NodeId whereFalse);
  /// The index of a reduction is in scope from beginReduction to endReduction, which takes its
  /// value at the index. `function` is any, all or sum.
  int32_t beginReduction(const Token &index, const Token &function, NodeId bound);
  NodeId endReduction(const Token &index, const Token &function, int32_t reduction, NodeId bound,
                      NodeId value);

  bool isParameter(std::string_view name) const;

  /// Nodes made so far.
  size_t nodeCount() const { return variant_.nodes.size(); }

private:
  struct Symbol {
    enum Kind { scalar, capture, extent, let, reduction } kind;
    int32_t
        value; ///< the parameter's, the bound extent's or the reduction's number, or the let's node
    SourceRange range;
    bool used = false;
  };

  bool declare(const Token &name, Symbol::Kind kind, int32_t value);
  bool addParameter(const Token &name, Symbol::Kind kind, Parameter parameter);
  /// What a name that is taken is, up to the number of its line.
  std::string whatIs(const Symbol &symbol) const;
  Symbol *lookUp(const Token &name);
  std::vector<std::string_view> namesInScope() const;
  NodeId add(Operator op, ScalarType type, SourceRange range, std::vector<NodeId> operands,
             int32_t integer = 0, float number = 0);
  ScalarType typeOf(NodeId id) const { return variant_.nodes[id].type; }
  /// `id` as f32, or kInvalid with a diagnostic that names `role`.
  NodeId asFloat(NodeId id, SourceRange range, std::string_view role);
  bool wantType(NodeId id, ScalarType type, SourceRange range, std::string_view role);
  /// Makes both i32 or both f32; false with a diagnostic where one is bool.
  bool unifyNumbers(NodeId &left, NodeId &right, SourceRange range, std::string_view role);
  /// Refuses `s`, and what is computed from it, in a mask and a sink; and `k` in a sink.
  NodeId checkScope(NodeId id, SourceRange range, std::string_view name);

  Variant &variant_;
  Diagnostics &diagnostics_;
  std::map<std::string, Symbol, std::less<>> symbols_;
  Statement statement_ = Statement::let;
  bool hasMask_ = false, hasScore_ = false, hasSink_ = false;
  int32_t reductions_ = 0;
};

} // namespace tesela

#endif // TESELA_FRONTEND_SEMA_H
