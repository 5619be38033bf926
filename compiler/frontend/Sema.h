//===- Sema.h - Names and types of a variant --------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The parser calls these functions while it reads. Each call checks and adds one
// node. kInvalid stands for a value with an error that has been reported. What is
// built from it is invalid, too, and is not reported again.
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

/// The statement whose expression is being read. `s` is in scope in a score, and
/// in a let that only scores use. `k` is not in scope in a sink.
enum class Statement { let, mask, score, sink };

class Sema {
public:
  Sema(Variant &variant, Diagnostics &diagnostics);

  // Declarations. Each takes the token of the name and reports a name that is already used.
  void declareScalar(const Token &name, Parameter parameter);
  /// `extents` has a token for each axis, the extent's name; null if the extent is a number. A name
  /// that is not an extent of the launch can be used as a value from here on.
  void declareCapture(const Token &name, Parameter parameter,
                      const std::vector<const Token *> &extents);
  void declareLet(const Token &name, NodeId value);
  void setMask(const Token &keyword, NodeId value);
  void setScore(const Token &keyword, NodeId value, bool exact);
  void setSink(const Token &keyword, NodeId value);
  void beginStatement(Statement statement) { statement_ = statement; }
  /// Adds the default score and mask, and warns of unused names.
  void finish();

  // Expressions.
  NodeId literal(const Token &token, bool negative);
  NodeId name(const Token &name);
  NodeId read(const Token &name, const std::vector<NodeId> &indices);
  NodeId call(const Token &name, const std::vector<NodeId> &arguments);
  NodeId unary(const Token &op, NodeId operand);
  NodeId binary(const Token &op, NodeId left, NodeId right);
  NodeId select(const Token &question, NodeId condition, NodeId whereTrue, NodeId whereFalse);
  /// The index of a reduction is in scope from beginReduction to endReduction. `value` is the
  /// reduced expression at that index. `function` is any, all or sum.
  int32_t beginReduction(const Token &index, const Token &function, NodeId bound);
  NodeId endReduction(const Token &index, const Token &function, int32_t reduction, NodeId bound,
                      NodeId value);

  bool isParameter(std::string_view name) const;

  /// The number of nodes so far.
  size_t nodeCount() const { return variant_.nodes.size(); }

private:
  struct Symbol {
    enum Kind { scalar, capture, extent, let, reduction } kind;
    int32_t
        value; ///< the number of the parameter, bound extent or reduction, or the node of the let
    SourceRange range;
    bool used = false;
  };

  bool declare(const Token &name, Symbol::Kind kind, int32_t value);
  bool addParameter(const Token &name, Symbol::Kind kind, Parameter parameter);
  /// Describes a name that is already used, up to its line number.
  std::string whatIs(const Symbol &symbol) const;
  Symbol *lookUp(const Token &name);
  std::vector<std::string_view> namesInScope() const;
  NodeId add(Operator op, ScalarType type, SourceRange range, std::vector<NodeId> operands,
             int32_t integer = 0, float number = 0);
  ScalarType typeOf(NodeId id) const { return variant_.nodes[id].type; }
  /// `id` converted to f32, or kInvalid with a diagnostic that mentions `role`.
  NodeId asFloat(NodeId id, SourceRange range, std::string_view role);
  bool wantType(NodeId id, ScalarType type, SourceRange range, std::string_view role);
  /// Converts both to i32 or both to f32. Returns false with a diagnostic if one is bool.
  bool unifyNumbers(NodeId &left, NodeId &right, SourceRange range, std::string_view role);
  /// Rejects `s` and values computed from it in a mask or a sink, and `k` in a sink.
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
