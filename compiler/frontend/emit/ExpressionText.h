//===- ExpressionText.h - Values of attn as text of the language -*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The inverse of Emit.h: writes a value of a body of the attn dialect as an expression of the
// language. The text gives the same numbers, with two exceptions: the last bits of an f32 in
// `x / y * z` (a factor 1 / y is written so), and an i32 that overflows where an f32 was negated.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_FRONTEND_EMIT_EXPRESSIONTEXT_H
#define TESELA_FRONTEND_EMIT_EXPRESSIONTEXT_H

#include "attn/Attn.h"

#include "llvm/ADT/StringSet.h"

#include <string>
#include <vector>

namespace tesela {

/// Writes values of one body. A large value that is used several times becomes a `let`, unless it
/// stands in a reduction.
class ExpressionText {
public:
  /// `body` is the body of a score or a sink of `variant`, or of its attn.gradient. `roots` are all
  /// values that will be passed to text().
  ExpressionText(attn::VariantOp variant, mlir::Block &body, llvm::ArrayRef<mlir::Value> roots);

  /// The lets in their order, for example "let t1 = tanh(s)".
  const std::vector<std::string> &lets() const { return letTexts; }
  /// `around`: the attn.rounds around the value, outermost first.
  std::string text(mlir::Value value, llvm::ArrayRef<attn::RoundsOp> around = {});
  /// The header "i < 8" of the last of `around`.
  std::string round(llvm::ArrayRef<attn::RoundsOp> around);
  /// Whether all roots with all lets are within the language's limits.
  bool isWithinLimits() const { return withinLimits; }

private:
  enum class Kind { name, index, conversion, unary, binary, call, read, select, reduce };
  /// How a value is written.
  struct Form {
    Kind kind = Kind::name;
    std::string word; ///< the name, number, operator or function
    llvm::SmallVector<mlir::Value, 3> operands;
    int level = kPrimary;   ///< its precedence, as in the parser
    bool isInteger = false; ///< the language reads the name as an i32
  };
  static constexpr int kUnary = 7, kPrimary = 8;

  const Form &form(mlir::Value value);
  Form findForm(mlir::Value value);
  Form ofArgument(mlir::BlockArgument argument);
  Form ofConstant(mlir::TypedAttr constant);
  Form ofSelect(mlir::Value condition, mlir::Value whereTrue, mlir::Value whereFalse);
  Form ofExtent(mlir::Value value, attn::CaptureExtentOp extent);
  Form ofProduct(mlir::Value a, mlir::Value b);
  static Form binary(llvm::StringRef symbol, mlir::Value a, mlir::Value b);
  static Form call(llvm::StringRef function, mlir::ValueRange arguments);
  bool findsBoundExtent(mlir::Value value, Form &form);

  /// Whether the text of an f32 is an i32 in the language.
  bool isInteger(mlir::Value value);
  bool findIsInteger(mlir::Value value);
  /// The name of an index inside `depth` other reductions.
  std::string indexName(size_t depth) const;
  void chooseLets(llvm::ArrayRef<mlir::Value> roots);
  /// `level`: the precedence of the surrounding text. `asFloat`: the text must be an f32.
  std::string write(mlir::Value value, int level, bool asFloat);
  std::string writeForm(const Form &form, mlir::Value value, bool asFloat);
  std::string freshName(llvm::StringRef stem, int &number);

  attn::VariantOp variant;
  mlir::Block &body;
  llvm::StringSet<> taken; ///< names that are already used
  llvm::DenseMap<mlir::Value, Form> forms;
  llvm::DenseMap<mlir::Value, bool> integers;
  llvm::DenseMap<mlir::Value, std::string> letNames;
  llvm::DenseMap<mlir::Value, std::string> indexNames; ///< of the reductions around the value
  size_t openReductions = 0;
  std::vector<std::string> letTexts;
  int letNumber = 0;
  bool withinLimits = true;
};

} // namespace tesela

#endif // TESELA_FRONTEND_EMIT_EXPRESSIONTEXT_H
