//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tesela/compiler/Artifact.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace tesela {

namespace {

/// The deepest nesting: far more than a grid needs. It protects the stack from a hostile text.
constexpr int maxDepth = 64;

bool isSpace(char c) { return c == ' ' || c == '\t' || c == '\n'; }

// A product of extents may leave 64 bits. It is then clamped to the largest or least
// number, so that a caller's check against a limit still fails.
int64_t saturatingAdd(int64_t a, int64_t b) {
  int64_t sum;
  if (!__builtin_add_overflow(a, b, &sum))
    return sum;
  return a < 0 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
}

int64_t saturatingMultiply(int64_t a, int64_t b) {
  int64_t product;
  if (!__builtin_mul_overflow(a, b, &product))
    return product;
  return (a < 0) != (b < 0) ? std::numeric_limits<int64_t>::min()
                            : std::numeric_limits<int64_t>::max();
}

/// a / b, rounded up; 0 if b is not positive.
int64_t ceilDivide(int64_t a, int64_t b) {
  if (b <= 0)
    return 0;
  return a / b + (a % b > 0);
}

} // namespace

Result<Expression> Expression::parse(std::string_view text) {
  struct Parser {
    std::string_view text;
    size_t position = 0;
    std::vector<Node> nodes;
    std::vector<CaptureAxis> captureAxes;
    std::string problem;

    std::string_view token() {
      while (position < text.size() && isSpace(text[position]))
        ++position;
      size_t begin = position;
      if (position < text.size() && (text[position] == '(' || text[position] == ')'))
        return text.substr(begin, ++position - begin);
      while (position < text.size() && !isSpace(text[position]) && text[position] != '(' &&
             text[position] != ')')
        ++position;
      return text.substr(begin, position - begin);
    }

    int add(Node node) {
      nodes.push_back(node);
      return int(nodes.size()) - 1;
    }

    int fail(std::string message) {
      if (problem.empty())
        problem = std::move(message);
      return -1;
    }

    /// Parses an extent such as "$doc.1".
    int parseCaptureExtent(std::string_view text) {
      size_t dot = text.rfind('.');
      std::string_view digits = dot == text.npos ? "" : text.substr(dot + 1);
      if (dot < 2 || digits.size() != 1 || digits[0] < '0' || digits[0] > '7')
        return fail("has '" + std::string(text) + "' where an extent such as $name.0 is expected");
      CaptureAxis found{std::string(text.substr(0, dot)), digits[0] - '0'};
      auto known = std::find(captureAxes.begin(), captureAxes.end(), found);
      int64_t index = known - captureAxes.begin();
      if (known == captureAxes.end())
        captureAxes.push_back(std::move(found));
      return add({Node::captureExtent, index, -1, -1});
    }

    int parse(int depth) {
      if (depth > maxDepth)
        return fail("is nested deeper than " + std::to_string(maxDepth) + " levels");
      std::string_view first = token();
      if (first == "(") {
        std::string_view name = token();
        Node::Kind kind;
        if (name == "+")
          kind = Node::add;
        else if (name == "*")
          kind = Node::multiply;
        else if (name == "ceildiv")
          kind = Node::ceilDivide;
        else if (name == "max")
          kind = Node::maximum;
        else
          return fail("has the operator '" + std::string(name) +
                      "'; there are +, *, ceildiv and max");
        int left = parse(depth + 1);
        int right = left < 0 ? -1 : parse(depth + 1);
        if (right < 0)
          return -1;
        if (token() != ")")
          return fail("lacks a ')' after two operands");
        return add({kind, 0, left, right});
      }
      for (int i = 0; i < 5; ++i)
        if (first == extentNames[i])
          return add({Node::extent, i, -1, -1});
      if (first.starts_with('$'))
        return parseCaptureExtent(first);
      int64_t value = 0;
      auto [end, code] = std::from_chars(first.data(), first.data() + first.size(), value);
      if (first.empty() || code != std::errc() || end != first.data() + first.size())
        return fail("has '" + std::string(first) +
                    "' where a number, B, H, Hkv, Sq, Sk or a '(' is expected");
      return add({Node::constant, value, -1, -1});
    }
  };

  Parser parser{text, 0, {}, {}, {}};
  if (parser.parse(0) >= 0 && !parser.token().empty())
    parser.problem = "goes on after its end";
  if (!parser.problem.empty())
    return Error(Code::inputOutput, "the expression '" + std::string(text) + "' " + parser.problem);
  Expression expression;
  expression.text_ = text;
  expression.nodes_ = std::move(parser.nodes);
  expression.captureAxes_ = std::move(parser.captureAxes);
  return expression;
}

std::optional<int> Expression::extentIndex() const {
  bool isOne = nodes_.size() == 1 && nodes_[0].kind == Node::extent;
  return isOne ? std::optional<int>(int(nodes_[0].value)) : std::nullopt;
}

std::vector<int> Expression::extents() const {
  std::vector<int> indices;
  for (const Node &node : nodes_)
    if (node.kind == Node::extent && std::ranges::find(indices, int(node.value)) == indices.end())
      indices.push_back(int(node.value));
  return indices;
}

std::optional<int64_t> Expression::constant() const {
  bool isNumber = nodes_.size() == 1 && nodes_[0].kind == Node::constant;
  return isNumber ? std::optional<int64_t>(nodes_[0].value) : std::nullopt;
}

int64_t Expression::evaluate(const Extents &extents,
                             std::span<const int64_t> captureExtents) const {
  const int64_t values[] = {extents.B, extents.H, extents.Hkv, extents.Sq, extents.Sk};
  auto evaluateNode = [&](auto &self, int index) -> int64_t {
    const Node &node = nodes_[index];
    switch (node.kind) {
    case Node::constant:
      return node.value;
    case Node::extent:
      return values[node.value];
    case Node::captureExtent:
      return node.value < int64_t(captureExtents.size()) ? captureExtents[node.value] : 0;
    case Node::add:
      return saturatingAdd(self(self, node.left), self(self, node.right));
    case Node::multiply:
      return saturatingMultiply(self(self, node.left), self(self, node.right));
    case Node::ceilDivide:
      return ceilDivide(self(self, node.left), self(self, node.right));
    case Node::maximum:
      return std::max(self(self, node.left), self(self, node.right));
    }
    return 0;
  };
  return nodes_.empty() ? 0 : evaluateNode(evaluateNode, int(nodes_.size()) - 1);
}

} // namespace tesela
