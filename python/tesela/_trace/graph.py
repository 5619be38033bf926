# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The expression that a traced function computes, as nodes. Equal expressions are the same node.

A node has one of the language's three types. The methods of `Graph` make nodes: they convert
operands to the types that the language requires, and leave out operations without effect. `is`
compares expressions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from .error import error

I32: Final = "i32"
F32: Final = "f32"
BOOL: Final = "bool"

Number = bool | int | float

LOWEST: Final = -(2**31)
HIGHEST: Final = 2**31 - 1

_NEGATED: Final = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_MIRRORED: Final = {"==": "==", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}


_NOTHING: Final[frozenset[object]] = frozenset()


class Node:
    """An expression.

    `op` is an operator of the language, or one of
    - `const`: the value `payload`;
    - `name`: `payload`, a word of the language or an argument of the user's function;
    - `scalar`: the captured number `payload`;
    - `extent`: the axis `payload[1]` of the captured tensor `payload[0]`;
    - `read`: an element of the captured tensor `payload` at the indices `args`;
    - `float`: an i32 as f32; `neg`, `not`, `select`;
    - `call`: the language's function `payload`;
    - `index`: the index of a reduction, numbered by its nesting depth;
    - `reduce`: of kind `payload[0]` over the index `payload[1]`; `args` are the bound and the body;
    - `|` and `^` of two i32, which `bits.lowered` replaces by arithmetic.

    `bound` says whether the node uses an index of a reduction around it. `uniform` says whether the
    value is known while the function is traced, because it only depends on captured numbers and
    shapes. `number` counts the graph's nodes; operands have lower numbers.
    """

    __slots__ = (
        "args",
        "bound",
        "graph",
        "has_score",
        "may",
        "number",
        "op",
        "payload",
        "type",
        "uniform",
    )

    def __init__(
        self,
        graph: Graph,
        number: int,
        op: str,
        type_: str,
        payload: object,
        args: tuple[Node, ...],
    ) -> None:
        self.graph = graph
        self.number = number
        self.op = op
        self.type = type_
        self.payload = payload
        self.args = args
        self.may: int | None = None
        if not args:
            self.uniform = op in ("const", "scalar", "extent")
            own: tuple[object, ...] = (payload,) if op == "index" else ()
            self.bound = frozenset(own)
            self.has_score = op == "name" and payload == "s"
            return
        uniform = op not in ("read", "reduce")
        has_score = False
        bound = _NOTHING
        for arg in args:
            uniform = uniform and arg.uniform
            has_score = has_score or arg.has_score
            if arg.bound:
                bound |= arg.bound
        self.uniform = uniform
        self.has_score = has_score
        if op == "reduce":
            assert isinstance(payload, tuple)
            bound -= {payload[1]}
        self.bound = bound

    def __repr__(self) -> str:
        if self.op in ("const", "name", "scalar", "extent", "index"):
            return f"{self.op}({self.payload})"
        inner = ", ".join(map(repr, self.args))
        return (
            f"{self.op}[{self.payload}]({inner})"
            if self.payload is not None
            else (
                f"({inner.replace(', ', f' {self.op} ', 1)})"
                if len(self.args) == 2
                else f"{self.op}({inner})"
            )
        )


class Graph:
    """All nodes of one trace."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[object, ...], Node] = {}
        self._depth = 0
        #: Whether there are nodes that `bits.lowered` must replace.
        self.has_bits = False
        self.true = self.constant(True)
        self.false = self.constant(False)

    def node(
        self, op: str, type_: str, payload: object = None, args: tuple[Node, ...] = ()
    ) -> Node:
        key = (op, type_, payload, *map(id, args))
        known = self._nodes.get(key)
        if known is None:
            known = Node(self, len(self._nodes), op, type_, payload, args)
            self._nodes[key] = known
        return known

    def constant(self, value: Number) -> Node:
        """A constant of type bool, i32 or f32."""
        if isinstance(value, bool):
            return self.node("const", BOOL, value)
        if isinstance(value, int):
            if not LOWEST <= value <= HIGHEST:
                raise error(
                    f"{value} does not fit an i32, which goes from {LOWEST} to {HIGHEST}; "
                    f"write {value}.0 if an f32 is precise enough"
                )
            return self.node("const", I32, value)
        # repr keeps the sign of 0, and NaN, which '==' does not distinguish.
        return self.node("const", F32, repr(value) if value != value or value == 0 else value)

    def name(self, name: str, type_: str) -> Node:
        return self.node("name", type_, name)

    # Types

    def number(self, a: Node) -> Node:
        """A bool as 0 or 1; a number stays."""
        if a.type != BOOL:
            return a
        return self.select(a, self.constant(1), self.constant(0))

    def boolean(self, a: Node) -> Node:
        """Whether a number is not 0; a bool stays."""
        return a if a.type == BOOL else self.compare("!=", a, self.constant(0))

    def floating(self, a: Node) -> Node:
        """A bool or an i32 as f32."""
        a = self.number(a)
        if a.type == F32:
            return a
        if a.op == "const":
            return self.constant(float(number_of(a)))
        return self.node("float", F32, None, (a,))

    def integer(self, a: Node) -> Node:
        """A number as i32, rounded towards zero."""
        a = self.number(a)
        return a if a.type == I32 else self.node("call", I32, "int", (a,))

    def _pair(self, a: Node, b: Node) -> tuple[Node, Node, str]:
        """Two numbers of types that the language combines: it converts an i32 beside an f32."""
        a, b = self.number(a), self.number(b)
        if a.type == b.type == I32:
            return a, b, I32
        if a.op == "float" and b.type == F32:
            a = a.args[0]
        elif b.op == "float" and a.type == F32:
            b = b.args[0]
        return a, b, F32

    # Arithmetic

    def negative(self, a: Node) -> Node:
        a = self.number(a)
        if a.op == "neg":
            return a.args[0]
        if a.op == "const" and number_of(a) != LOWEST:
            return self.constant(-number_of(a))
        if a.op == "float":
            return self.floating(self.negative(a.args[0]))
        return self.node("neg", a.type, None, (a,))

    def arithmetic(self, op: str, a: Node, b: Node) -> Node:
        """The language's `+ - * / %`. `/` of two i32 rounds down; `%` takes two i32."""
        a, b, type_ = self._pair(a, b)
        if b.op == "const":
            right = number_of(b)
            if right == 0 and op in "+-" and b.type == I32:
                return a
            if right == 1 and op in "*/" and b.type == I32:
                return a
            if right == 0 and op == "*" and type_ == I32:
                return b
            if op in "+-" and (LOWEST if b.type == I32 else -math.inf) < right < 0:
                return self.arithmetic("-" if op == "+" else "+", a, self.constant(-right))
            if a.op == "const" and type_ == I32:
                folded = _fold(op, int(number_of(a)), int(right))
                if LOWEST <= folded <= HIGHEST:
                    return self.constant(folded)
        elif a.op == "const" and a.type == I32:
            left = number_of(a)
            if (left == 0 and op == "+") or (left == 1 and op == "*"):
                return b
            if left == 0 and op == "-":
                return self.negative(b)
        return self.node(op, type_, None, (a, b))

    def quotient(self, a: Node, b: Node) -> Node:
        """Python's `/`: an f32, for any two numbers."""
        a, b = self.number(a), self.number(b)
        if a.type == b.type == I32:
            if b.op == "const":
                b = self.floating(b)
            else:
                a = self.floating(a)
        return self.arithmetic("/", a, b)

    def call(self, function: str, *args: Node) -> Node:
        """A function of f32 with a result in f32."""
        operands = tuple(self.number(a) for a in args)
        operands = tuple(a.args[0] if a.op == "float" else a for a in operands)
        return self.node("call", F32, function, operands)

    def extreme(self, function: str, a: Node, b: Node) -> Node:
        """`min` or `max`."""
        a, b, type_ = self._pair(a, b)
        if a is b:
            return a
        if a.op == b.op == "const" and a.type == b.type == I32:
            pick = min if function == "min" else max
            return self.constant(pick(number_of(a), number_of(b)))
        return self.node("call", type_, function, (a, b))

    def absolute(self, a: Node) -> Node:
        a = self.number(a)
        if a.op == "neg":
            a = a.args[0]
        return self.node("call", a.type, "abs", (a,))

    # Truth

    def compare(self, op: str, a: Node, b: Node) -> Node:
        if a.type == b.type == BOOL and op in ("==", "!="):
            if a.op == "const":
                a, b = b, a
            if b.op == "const":
                return a if bool(b.payload) == (op == "==") else self.negation(a)
            if a is b:
                return self.constant(op == "==")
            return self.node(op, BOOL, None, (a, b))
        a, b, type_ = self._pair(a, b)
        if type_ == I32 and a is b:
            return self.constant(op in ("==", "<=", ">="))
        if a.op == b.op == "const" and type_ == I32:
            return self.constant(_compare(op, number_of(a), number_of(b)))
        if a.op == "const":
            a, b, op = b, a, _MIRRORED[op]
        return self.node(op, BOOL, None, (a, b))

    def negation(self, a: Node) -> Node:
        a = self.boolean(a)
        if a.op == "const":
            return self.constant(not a.payload)
        if a.op == "not":
            return a.args[0]
        if a.op in ("==", "!="):
            return self.node(_NEGATED[a.op], BOOL, None, a.args)
        if a.op in _NEGATED and a.args[0].type == a.args[1].type == I32:
            return self.node(_NEGATED[a.op], BOOL, None, a.args)
        return self.node("not", BOOL, None, (a,))

    def both(self, a: Node, b: Node) -> Node:
        a, b = self.boolean(a), self.boolean(b)
        if a is self.true or a is b:
            return b
        if b is self.true:
            return a
        if a is self.false or b is self.false or a is self.negation(b):
            return self.false
        return self.node("&&", BOOL, None, (a, b))

    def either(self, a: Node, b: Node) -> Node:
        a, b = self.boolean(a), self.boolean(b)
        if a is self.false or a is b:
            return b
        if b is self.false:
            return a
        if a is self.true or b is self.true or a is self.negation(b):
            return self.true
        return self.node("||", BOOL, None, (a, b))

    def select(self, c: Node, a: Node, b: Node) -> Node:
        """`c ? a : b`. For conditions it is written with `&&` and `||`."""
        c = self.boolean(c)
        if c.op == "const":
            return a if c.payload else b
        if a is b:
            return a
        if a.type == b.type == BOOL:
            return self._condition(c, a, b)
        a, b, type_ = self._pair(a, b)
        if c.op == "not":
            c, a, b = c.args[0], b, a
        return self.node("select", type_, None, (c, a, b))

    def _condition(self, c: Node, a: Node, b: Node) -> Node:
        if a is self.true or a is c:
            return self.either(c, b)
        if b is self.false or b is c:
            return self.both(c, a)
        if a is self.false:
            return self.both(self.negation(c), b)
        if b is self.true:
            return self.either(self.negation(c), a)
        # Factors out what both sides share: c ? x || b : b is (c && x) || b, and so on.
        if a.op == "||" and b in a.args:
            return self.either(self.both(c, _other(a, b)), b)
        if b.op == "||" and a in b.args:
            return self.either(self.both(self.negation(c), _other(b, a)), a)
        if b.op == "&&" and a in b.args:
            return self.both(self.either(c, _other(b, a)), a)
        if a.op == "&&" and b in a.args:
            return self.both(self.either(self.negation(c), _other(a, b)), b)
        return self.node("select", BOOL, None, (c, a, b))

    # Reductions

    def enter(self) -> Node:
        """The index of a new reduction, for its body. `leave` ends the body."""
        self._depth += 1
        return self.node("index", I32, self._depth)

    def leave(self, kind: str, bound: Node, body: Node) -> Node:
        index = self._depth
        self._depth -= 1
        body = self.number(body) if kind == "sum" else self.boolean(body)
        return self.node("reduce", body.type, (kind, index), (bound, body))


def _other(pair: Node, one: Node) -> Node:
    return pair.args[1] if pair.args[0] is one else pair.args[0]


def in_order(roots: Iterable[Node]) -> list[Node]:
    """The nodes `roots` and all nodes below them, each after its operands."""
    found: dict[int, Node] = {}
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node.number not in found:
            found[node.number] = node
            stack.extend(node.args)
    return [found[number] for number in sorted(found)]


def is_natural(node: Node) -> bool:
    """Whether an i32 is certainly not negative."""
    if node.op == "const":
        return number_of(node) >= 0
    if node.op in ("name", "index", "extent"):
        return True
    if node.op == "+" or (node.op == "call" and node.payload == "min"):
        return all(map(is_natural, node.args))
    if node.op == "call" and node.payload == "max":
        return any(map(is_natural, node.args))
    if node.op in ("/", "%") and node.args[1].op == "const":
        return number_of(node.args[1]) >= 0 and (node.op == "%" or is_natural(node.args[0]))
    return False


def number_of(node: Node) -> int | float:
    """The value of a constant number."""
    if isinstance(node.payload, str):
        return float(node.payload)
    assert isinstance(node.payload, (int, float))
    return node.payload


def _fold(op: str, a: int, b: int) -> int:
    if op == "+":
        return a + b
    if op == "-":
        return a - b
    if op == "*":
        return a * b
    if b == 0:
        return 0
    return a // b if op == "/" else a % b


def _compare(op: str, a: int | float, b: int | float) -> bool:
    return {
        "==": a == b,
        "!=": a != b,
        "<": a < b,
        "<=": a <= b,
        ">": a > b,
        ">=": a >= b,
    }[op]
