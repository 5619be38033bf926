# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Shifts and bitwise operators of i32, written with the language's `* / % +`.

The language's `/` rounds down, and its `%` has the divisor's sign. So on two's complement `x /
2**n` is a shift to the right, and `x % 2**n` keeps the n lowest bits, also for negative numbers.
"""

from __future__ import annotations

from typing import Final

from .error import error
from .graph import BOOL, I32, Graph, Node, in_order, number_of

_ALL: Final = 2**32 - 1
_SIGN: Final = 2**31


def may(node: Node) -> int:
    """The bits of an i32 that may be 1."""
    if node.may is None:
        node.may = _may(node)
    return node.may


def _ones(bits: int) -> int:
    return (1 << bits) - 1


def _may(node: Node) -> int:
    op = node.op
    if op == "const":
        return int(number_of(node)) & _ALL
    if op in ("index", "extent") or (op == "name" and node.payload in _INDICES):
        return _SIGN - 1
    if op == "select":
        return may(node.args[1]) | may(node.args[2])
    if op not in ("+", "*", "/", "%", "|", "^"):
        return _ALL
    a, b = node.args
    if op in _LOGICAL:
        return may(a) | may(b)
    if op == "+":
        if may(a) & may(b) == 0:
            return may(a) | may(b)
        bits = (may(a) + may(b)).bit_length()
        return _ones(bits) if bits < 32 else _ALL
    if b.op != "const":
        return _ALL
    right = int(number_of(b))
    if op == "%":
        if right <= 0:
            return _ALL
        return _ones((right - 1).bit_length()) & (may(a) if _is_power(right) else _ALL)
    if right <= 0 or may(a) & _SIGN:
        return _ALL
    if op == "/":
        if _is_power(right):
            return may(a) >> (right.bit_length() - 1)
        return _ones((may(a) // right).bit_length())
    if _is_power(right):
        return (may(a) << (right.bit_length() - 1)) & _ALL
    bits = (may(a) * right).bit_length()
    return _ones(bits) if bits < 32 else _ALL


_LOGICAL: Final = ("|", "^")
_INDICES: Final = frozenset(("b", "h", "hkv", "q", "k", "B", "H", "Hkv", "Sq", "Sk"))


def _is_power(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


def _integers(graph: Graph, name: str, a: Node, b: Node) -> tuple[Node, Node]:
    a, b = graph.number(a), graph.number(b)
    if a.type != I32 or b.type != I32:
        raise error(
            f"'{name}' takes two bools or two integers, but an operand is f32; "
            "compare it, for example with '> 0'"
        )
    return a, b


def shift_left(graph: Graph, a: Node, n: Node) -> Node:
    a, n = _integers(graph, "<<", a, n)
    if n.op != "const":
        return graph.arithmetic("*", a, power(graph, 2, n))
    count = _count(n)
    if a.op in _LOGICAL:
        return _either(graph, a.op, *(shift_left(graph, x, n) for x in a.args))
    factor = 1 << count
    return graph.arithmetic("*", a, graph.constant(factor - (1 << 32 if count == 31 else 0)))


def shift_right(graph: Graph, a: Node, n: Node) -> Node:
    a, n = _integers(graph, ">>", a, n)
    if n.op != "const":
        return graph.arithmetic("/", a, power(graph, 2, n))
    count = _count(n)
    if a.op in _LOGICAL:
        return _either(graph, a.op, *(shift_right(graph, x, n) for x in a.args))
    if count == 31:
        return graph.select(
            graph.compare("<", a, graph.constant(0)), graph.constant(-1), graph.constant(0)
        )
    if a.op == "*" and a.args[1].op == "const":
        factor = int(number_of(a.args[1]))
        lost = (may(a.args[0]) << max(factor.bit_length() - 1, 0)) >= _SIGN
        if _is_power(factor) and factor <= 1 << count and not lost:
            return graph.arithmetic("/", a.args[0], graph.constant((1 << count) // factor))
    return graph.arithmetic("/", a, graph.constant(1 << count))


def _count(n: Node) -> int:
    count = int(number_of(n))
    if not 0 <= count < 32:
        raise error(f"an i32 is shifted by {count}; shift by 0 to 31")
    return count


def both(graph: Graph, a: Node, b: Node) -> Node:
    """`&` of two bools, or bit by bit of two i32."""
    if a.type == b.type == BOOL:
        return graph.both(a, b)
    a, b = _integers(graph, "&", a, b)
    if a.op == "const":
        a, b = b, a
    common = may(a) & may(b)
    if common == 0:
        return graph.constant(0)
    if b.op == "const":
        return _masked(graph, a, int(number_of(b)) & _ALL)
    return _bit_by_bit(graph, a, b, common)


def either(graph: Graph, a: Node, b: Node) -> Node:
    """`|` of two bools, or bit by bit of two i32."""
    if a.type == b.type == BOOL:
        return graph.either(a, b)
    return _either(graph, "|", *_integers(graph, "|", a, b))


def differing(graph: Graph, a: Node, b: Node) -> Node:
    """`^` of two bools, or bit by bit of two i32."""
    if a.type == b.type == BOOL:
        return graph.compare("!=", a, b)
    return _either(graph, "^", *_integers(graph, "^", a, b))


def inverted(graph: Graph, a: Node) -> Node:
    """`~` of a bool, or bit by bit of an i32."""
    if a.type == BOOL:
        return graph.negation(a)
    if a.type != I32:
        raise error("'~' takes a bool or an integer, but the operand is f32; compare it first")
    return graph.arithmetic("-", graph.negative(a), graph.constant(1))


def _either(graph: Graph, op: str, a: Node, b: Node) -> Node:
    if may(a) & may(b) == 0:
        return graph.arithmetic("+", a, b)
    if a is b:
        return a if op == "|" else graph.constant(0)
    # Only the use of the value says which bits are needed, as in '(x | x << 8) & 0xff'.
    graph.has_bits = True
    return graph.node(op, I32, None, (a, b))


def _masked(graph: Graph, a: Node, mask: int) -> Node:
    """The bits of `a` that are in `mask`: a sum over the runs of ones in `mask`."""
    wanted = may(a)
    if wanted & ~mask == 0:
        return a
    if a.op in _LOGICAL:
        return _either(graph, a.op, *(_masked(graph, x, mask) for x in a.args))
    total: Node | None = None
    low = 0
    while mask >> low:
        if not mask >> low & 1:
            low += 1
            continue
        high = low
        while mask >> high & 1:
            high += 1
        if wanted >> low & _ones(high - low):
            part = shift_right(graph, a, graph.constant(low)) if low else a
            if high < 32 and may(part) >> (high - low):
                part = graph.arithmetic("%", part, graph.constant(1 << (high - low)))
            part = shift_left(graph, part, graph.constant(low))
            total = part if total is None else graph.arithmetic("+", total, part)
        low = high
    return graph.constant(0) if total is None else total


def _bit_by_bit(graph: Graph, a: Node, b: Node, bits: int) -> Node:
    two = graph.constant(2)
    total = graph.constant(0)
    for i in range(31):
        if bits >> i & 1:
            n = graph.constant(i)
            x = graph.arithmetic("%", shift_right(graph, a, n), two)
            y = graph.arithmetic("%", shift_right(graph, b, n), two)
            bit = graph.arithmetic("*", x, y)
            total = graph.arithmetic("+", total, shift_left(graph, bit, n))
    if bits & _SIGN:
        zero = graph.constant(0)
        negative = graph.both(graph.compare("<", a, zero), graph.compare("<", b, zero))
        sign = graph.select(negative, graph.constant(-(2**31)), zero)
        total = graph.arithmetic("+", total, sign)
    return total


def power(graph: Graph, base: int, exponent: Node) -> Node:
    """`base ** exponent` of i32, which wraps. The exponent is taken modulo 32."""
    result = graph.constant(1)
    for i in range(5):
        factor = (pow(base, 1 << i, 1 << 32) + _SIGN) % (1 << 32) - _SIGN
        bit = _masked(graph, shift_right(graph, exponent, graph.constant(i)), 1)
        step = graph.select(
            graph.compare("==", bit, graph.constant(1)), graph.constant(factor), graph.constant(1)
        )
        result = graph.arithmetic("*", result, step)
    return result


def lowered(graph: Graph, node: Node) -> Node:
    """`node` with `|` and `^` of two i32 replaced by arithmetic.

    `a | b` is `a + b - (a & b)`, and `a ^ b` is `a + b - 2 * (a & b)`.
    """
    if not graph.has_bits:
        return node
    done: dict[int, Node] = {}
    for each in in_order((node,)):
        args = tuple(done[id(arg)] for arg in each.args)
        new = each
        if each.op in _LOGICAL:
            a, b = args
            common = _bit_by_bit(graph, a, b, may(a) & may(b))
            if each.op == "^":
                common = graph.arithmetic("*", common, graph.constant(2))
            new = graph.arithmetic("-", graph.arithmetic("+", a, b), common)
        elif args != each.args:
            new = graph.node(each.op, each.type, each.payload, args)
        done[id(each)] = new
    return done[id(node)]
