# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# ruff: noqa: A001, A002 - arguments have the names that the frameworks use
"""Functions of PyTorch, NumPy and jax.numpy, written in Tesela's language.

`TABLE` has each function under one name; `ALIASES` has its other names in the frameworks. If two
functions have the same name in different frameworks, PyTorch's is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

from . import bits
from .error import error
from .graph import BOOL, F32, I32, Graph, Node, is_natural, number_of
from .value import ALIASES, TABLE, Array, Traced, Value, operand

_F = TypeVar("_F", bound=Callable[..., Any])


def named(*names: str) -> Callable[[_F], _F]:
    def enter(function: _F) -> _F:
        TABLE[names[0]] = function
        ALIASES.update((name, names[0]) for name in names[1:])
        return function

    return enter


def graph_of(*operands: Any) -> Graph:
    for x in operands:
        if isinstance(x, Traced):
            return x.graph
    raise error("a function that takes traced values was called without a traced value")


def apply(function: Callable[..., Node], *operands: Any) -> Any:
    """Applies `function(graph, *nodes)` element by element; broadcasts operands as NumPy does."""
    graph = graph_of(*operands)
    traced = [operand(graph, x) for x in operands]
    if not any(isinstance(x, Array) for x in traced):
        return Value(function(graph, *(x.node for x in traced)))
    shape, broadcast = _broadcast(graph, traced)

    def element(indices: tuple[Node, ...]) -> Node:
        return function(
            graph, *(_at(x, indices, ones) for x, ones in zip(traced, broadcast, strict=True))
        )

    return Array(graph, shape, element)


def _broadcast(
    graph: Graph, operands: list[Any]
) -> tuple[tuple[Node, ...], tuple[frozenset[int], ...]]:
    """The shape of a result, and for each operand the axes that repeat their one element.

    Axes count from the last one, which is -1.
    """
    shape: list[Node] = []
    ones: list[set[int]] = [set() for _ in operands]
    for axis in range(-max(x.ndim for x in operands), 0):
        places = [i for i, x in enumerate(operands) if isinstance(x, Array) and x.ndim >= -axis]
        extents = [operands[i].nodes[axis] for i in places]
        chosen = extents[0]
        if any(each is not chosen for each in extents):
            many = [each for each in extents if not is_one(each)]
            chosen = many[0] if many else graph.constant(1)
            for each in many:
                check_extents(each, chosen)
            for i in places:
                if operands[i].nodes[axis] not in many:
                    ones[i].add(axis)
        shape.append(chosen)
    return tuple(shape), tuple(map(frozenset, ones))


def check_extents(a: Node, b: Node) -> None:
    """Raises an error unless two extents are equal."""
    if a is not b and not bool(Value(a) == Value(b)):
        raise error(
            f"an axis of {Value(a).item()} elements was combined with one of {Value(b).item()}; "
            "both must have the same number of elements, or one of them a single element"
        )


def is_one(extent: Node) -> bool:
    return bool(Value(extent) == 1) if extent.op != "const" else number_of(extent) == 1


def _at(x: Any, indices: tuple[Node, ...], ones: frozenset[int]) -> Node:
    if isinstance(x, Value):
        return x.node
    zero = x.graph.constant(0)
    own = range(-x.ndim, 0)
    result: Node = x.element(tuple(zero if axis in ones else indices[axis] for axis in own))
    return result


def elementwise(function: Callable[..., Node], *names: str, operands: int) -> None:
    """Registers `function(graph, *nodes)` under `names`."""
    if operands == 1:

        def unary(input: Any) -> Any:
            return apply(function, input)

        named(*names)(unary)
    else:

        def binary(input: Any, other: Any) -> Any:
            return apply(function, input, other)

        named(*names)(binary)


def f32(graph: Graph, value: float) -> Node:
    return graph.constant(float(value))


# Arithmetic


def _plus(graph: Graph, a: Node, b: Node) -> Node:
    """The sum. That of two conditions is a condition, as in the frameworks."""
    if a.type == b.type == BOOL:
        return graph.either(a, b)
    return graph.arithmetic("+", a, b)


def _times(graph: Graph, a: Node, b: Node) -> Node:
    if a.type == b.type == BOOL:
        return graph.both(a, b)
    return graph.arithmetic("*", a, b)


def _minus(graph: Graph, a: Node, b: Node) -> Node:
    if a.type == b.type == BOOL:
        raise error("a condition was subtracted from a condition; write a ^ b, or a & ~b")
    return graph.arithmetic("-", a, b)


def _floor_divide(graph: Graph, a: Node, b: Node) -> Node:
    a, b = graph.number(a), graph.number(b)
    if a.type == b.type == I32:
        return graph.arithmetic("/", a, b)
    return graph.call("floor", graph.quotient(a, b))


def _remainder(graph: Graph, a: Node, b: Node) -> Node:
    """The remainder with the divisor's sign."""
    a, b = graph.number(a), graph.number(b)
    if a.type == b.type == I32:
        return graph.arithmetic("%", a, b)
    return graph.arithmetic("-", a, graph.arithmetic("*", _floor_divide(graph, a, b), b))


def truncated(graph: Graph, a: Node, b: Node) -> Node:
    """The quotient, rounded towards zero."""
    a, b = graph.number(a), graph.number(b)
    if not a.type == b.type == I32:
        return _trunc(graph, graph.quotient(a, b))
    size = graph.arithmetic("/", graph.absolute(a), graph.absolute(b))
    zero = graph.constant(0)
    differ = graph.compare("!=", graph.compare("<", a, zero), graph.compare("<", b, zero))
    return graph.select(differ, graph.negative(size), size)


def _fmod(graph: Graph, a: Node, b: Node) -> Node:
    """The remainder with the dividend's sign."""
    return graph.arithmetic("-", a, graph.arithmetic("*", truncated(graph, a, b), b))


def _trunc(graph: Graph, a: Node) -> Node:
    if a.type != F32:
        return graph.number(a)
    return graph.select(graph.compare("<", a, f32(graph, 0)), _ceil(graph, a), _floor(graph, a))


def _floor(graph: Graph, a: Node) -> Node:
    return graph.call("floor", a) if a.type == F32 else graph.number(a)


def _ceil(graph: Graph, a: Node) -> Node:
    if a.type != F32:
        return graph.number(a)
    return graph.negative(graph.call("floor", graph.negative(a)))


def _round(graph: Graph, a: Node) -> Node:
    """Rounds to the nearest integer; a half goes to the even one."""
    if a.type != F32:
        return graph.number(a)
    low = graph.call("floor", a)
    rest = graph.arithmetic("-", a, low)
    half, one = f32(graph, 0.5), f32(graph, 1)
    odd = graph.compare("!=", _remainder(graph, low, f32(graph, 2)), f32(graph, 0))
    up = graph.either(
        graph.compare(">", rest, half), graph.both(graph.compare("==", rest, half), odd)
    )
    return graph.select(up, graph.arithmetic("+", low, one), low)


def _power(graph: Graph, a: Node, b: Node) -> Node:
    a, b = graph.number(a), graph.number(b)
    if b.op == "const":
        exponent = number_of(b)
        if exponent == 0.5:
            return graph.call("sqrt", a)
        if float(exponent).is_integer() and 0 <= abs(exponent) <= 64:
            if b.type == F32:
                a = graph.floating(a)
            result = _product(graph, a, int(abs(exponent)))
            return graph.quotient(graph.constant(1), result) if exponent < 0 else result
    if a.op == "const":
        base = number_of(a)
        if isinstance(base, int) and b.type == I32:
            return bits.power(graph, base, b)
        if base > 0:
            return graph.call("exp", graph.arithmetic("*", b, f32(graph, math.log(base))))
    if a.type == b.type == I32:
        raise error(
            "a traced integer cannot have a traced integer as its exponent; write "
            "torch.exp(y * torch.log(x)), or read the powers from a table"
        )
    if a.type == I32 and is_natural(a):
        return _exponential(graph, a, b)
    return _signed_power(graph, a, b)


def _exponential(graph: Graph, a: Node, b: Node) -> Node:
    return graph.call("exp", graph.arithmetic("*", b, graph.call("log", a)))


def _signed_power(graph: Graph, a: Node, b: Node) -> Node:
    """A base below 0 has powers with whole exponents. Each base has the power 1 with 0."""
    zero, two = f32(graph, 0), f32(graph, 2)
    size = _exponential(graph, graph.absolute(a), b)
    if b.type == I32:
        is_odd = graph.compare("!=", graph.arithmetic("%", b, graph.constant(2)), graph.constant(0))
        signed = graph.select(is_odd, graph.negative(size), size)
    else:
        is_odd = graph.compare("!=", _remainder(graph, b, two), zero)
        is_whole = graph.compare("==", graph.call("floor", b), b)
        signed = graph.select(is_odd, graph.negative(size), size)
        signed = graph.select(is_whole, signed, f32(graph, math.nan))
    power = graph.select(graph.compare("<", a, zero), signed, size)
    return graph.select(graph.compare("==", b, graph.constant(0)), f32(graph, 1), power)


def _product(graph: Graph, a: Node, count: int) -> Node:
    result = f32(graph, 1) if a.type == F32 else graph.constant(1)
    first = True
    while count:
        if count & 1:
            result = a if first else graph.arithmetic("*", result, a)
            first = False
        count >>= 1
        if count:
            a = graph.arithmetic("*", a, a)
    return result


def _sign(graph: Graph, a: Node) -> Node:
    a = graph.number(a)
    zero, one = graph.constant(0), graph.constant(1)
    sign = graph.select(
        graph.compare(">", a, zero),
        one,
        graph.select(graph.compare("<", a, zero), graph.constant(-1), zero),
    )
    return graph.floating(sign) if a.type == F32 else sign


elementwise(_times, "mul", "multiply", "rmul", operands=2)
elementwise(_remainder, "remainder", "mod", operands=2)
elementwise(_fmod, "fmod", "rem", operands=2)
elementwise(_power, "pow", "power", operands=2)
elementwise(
    lambda graph, a, b: _power(graph, graph.floating(a), graph.floating(b)),
    "float_power",
    operands=2,
)
elementwise(lambda graph, a: graph.negative(a), "neg", "negative", operands=1)
elementwise(lambda graph, a: graph.number(a), "positive", "pos", operands=1)
elementwise(lambda graph, a: graph.absolute(a), "abs", "absolute", "fabs", operands=1)
elementwise(_floor, "floor", operands=1)
elementwise(_ceil, "ceil", operands=1)
elementwise(_trunc, "trunc", "fix", operands=1)
elementwise(_sign, "sign", "sgn", operands=1)
elementwise(lambda graph, a: graph.arithmetic("*", a, a), "square", operands=1)
elementwise(lambda graph, a: graph.quotient(f32(graph, 1), a), "reciprocal", operands=1)


def _scaled(value: Any, factor: Any) -> Any:
    return value if isinstance(factor, int) and factor == 1 else value * factor


@named("add", "radd", "iadd")
def _add(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    return apply(_plus, input, _scaled(other, alpha))


@named("sub", "subtract", "isub")
def _subtract(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    return apply(_minus, input, _scaled(other, alpha))


@named("rsub")
def _rsub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    return _subtract(other, input, alpha=alpha)


@named("div", "divide", "true_divide", "truediv")
def _divide(input: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    by_mode = {None: Graph.quotient, "floor": _floor_divide, "trunc": truncated}
    return apply(by_mode[rounding_mode], input, other)


@named("rdiv", "rtruediv")
def _rdivide(input: Any, other: Any) -> Any:
    return _divide(other, input)


elementwise(_floor_divide, "floor_divide", "floordiv", operands=2)


@named("rfloordiv", "rfloor_divide")
def _rfloordiv(input: Any, other: Any) -> Any:
    return apply(_floor_divide, other, input)


@named("rmod", "rremainder")
def _rmod(input: Any, other: Any) -> Any:
    return apply(_remainder, other, input)


@named("rpow")
def _rpow(input: Any, other: Any) -> Any:
    return apply(_power, other, input)


@named("round", "rint", "around")
def _rounded(input: Any, decimals: int = 0) -> Any:
    if decimals:
        raise error("round() to decimals cannot be traced; scale the value instead")
    return apply(_round, input)


# Truth and bits


def _comparison(op: str) -> Callable[..., Node]:
    return lambda graph, a, b: graph.compare(op, a, b)


elementwise(_comparison("=="), "eq", "equal", operands=2)
elementwise(_comparison("!="), "ne", "not_equal", operands=2)
elementwise(_comparison("<"), "lt", "less", operands=2)
elementwise(_comparison("<="), "le", "less_equal", operands=2)
elementwise(_comparison(">"), "gt", "greater", operands=2)
elementwise(_comparison(">="), "ge", "greater_equal", operands=2)
elementwise(bits.both, "bitwise_and", "and", "rand", "iand", operands=2)
elementwise(bits.either, "bitwise_or", "or", "ror", "ior", operands=2)
elementwise(bits.differing, "bitwise_xor", "xor", "rxor", "ixor", operands=2)
elementwise(bits.inverted, "bitwise_not", "invert", "bitwise_invert", operands=1)
elementwise(bits.shift_left, "bitwise_left_shift", "lshift", "left_shift", operands=2)
elementwise(bits.shift_right, "bitwise_right_shift", "rshift", "right_shift", operands=2)
elementwise(lambda graph, a, b: graph.both(a, b), "logical_and", operands=2)
elementwise(lambda graph, a, b: graph.either(a, b), "logical_or", operands=2)
elementwise(
    lambda graph, a, b: graph.compare("!=", graph.boolean(a), graph.boolean(b)),
    "logical_xor",
    operands=2,
)
elementwise(lambda graph, a: graph.negation(a), "logical_not", operands=1)


def _is_nan(graph: Graph, a: Node) -> Node:
    return graph.compare("!=", a, a) if a.type == F32 else graph.false


def _is_infinite(graph: Graph, a: Node) -> Node:
    return graph.compare("==", graph.absolute(graph.floating(a)), f32(graph, math.inf))


elementwise(_is_nan, "isnan", operands=1)
elementwise(_is_infinite, "isinf", operands=1)
elementwise(
    lambda graph, a: graph.compare("<", graph.absolute(graph.floating(a)), f32(graph, math.inf)),
    "isfinite",
    operands=1,
)
elementwise(lambda graph, a: graph.compare("==", a, f32(graph, -math.inf)), "isneginf", operands=1)
elementwise(lambda graph, a: graph.compare("==", a, f32(graph, math.inf)), "isposinf", operands=1)


@named("where")
def _where(
    condition: Any, input: Any = None, other: Any = None, *, x: Any = None, y: Any = None
) -> Any:
    input, other = input if x is None else x, other if y is None else y
    if input is None or other is None:
        raise error("where() with a condition only gives indices, which cannot be traced")
    if not isinstance(condition, Traced):
        return input if bool(condition) else other
    return apply(Graph.select, condition, input, other)


@named("masked_fill")
def _masked_fill(input: Any, mask: Any, value: Any) -> Any:
    return apply(Graph.select, mask, value, input)


# Bounds


def _extreme(name: str) -> Callable[..., Node]:
    def function(graph: Graph, a: Node, b: Node) -> Node:
        if a.type == b.type == BOOL:
            return graph.both(a, b) if name == "min" else graph.either(a, b)
        return graph.extreme(name, a, b)

    return function


elementwise(_extreme("min"), "minimum", "fmin", operands=2)
elementwise(_extreme("max"), "maximum", "fmax", operands=2)


@named("min")
def _min(input: Any, other: Any = None, **named: Any) -> Any:
    return _extreme_of("min", input, other, named)


@named("max")
def _max(input: Any, other: Any = None, **named: Any) -> Any:
    return _extreme_of("max", input, other, named)


@named("amin")
def _amin(input: Any, *_: Any, **__: Any) -> Any:
    return _extreme_of("min", input, None, {})


@named("amax")
def _amax(input: Any, *_: Any, **__: Any) -> Any:
    return _extreme_of("max", input, None, {})


def _extreme_of(name: str, input: Any, other: Any, named: dict[str, Any]) -> Any:
    """PyTorch's max(input, other). A whole number as `other` is an axis, as in all frameworks."""
    is_axis = isinstance(other, (int, tuple, list)) or (
        isinstance(other, Value)
        and other.node.type == I32
        and other.node.uniform
        and other.node.op != "const"
    )
    if other is None or is_axis or named:
        raise error(
            f"the {name} of a whole tensor or along an axis cannot be traced; compute it outside "
            f"of the function, or write {name}imum(x, y) for the {name}imum of two values"
        )
    return apply(_extreme(name), input, other)


@named("clamp", "clip")
def _clamp(
    input: Any, min: Any = None, max: Any = None, *, a_min: Any = None, a_max: Any = None
) -> Any:
    low, high = min if a_min is None else a_min, max if a_max is None else a_max
    if low is not None and high is not None:
        return apply(_clamped, input, low, high)
    if low is not None:
        return apply(_extreme("max"), input, low)
    return input if high is None else apply(_extreme("min"), input, high)


def _clamped(graph: Graph, x: Node, low: Node, high: Node) -> Node:
    x, low, high = graph.number(x), graph.number(low), graph.number(high)
    type_ = I32 if x.type == low.type == high.type == I32 else F32
    if x.op == "float" and F32 in (low.type, high.type):
        x = x.args[0]
    return graph.node("call", type_, "clamp", (x, low, high))


@named("clamp_min")
def _clamp_min(input: Any, min: Any) -> Any:
    return _clamp(input, min)


@named("clamp_max")
def _clamp_max(input: Any, max: Any) -> Any:
    return _clamp(input, None, max)


@named("nan_to_num")
def _nan_to_num(input: Any, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    if isinstance(nan, bool):  # NumPy's second argument is whether to copy, the third is nan
        nan, posinf = (0.0 if posinf is None else posinf), None
    most = 3.4028234663852886e38
    posinf = most if posinf is None else posinf
    neginf = -most if neginf is None else neginf
    number = _where(TABLE["isnan"](input), 0.0 if nan is None else nan, input)
    number = _where(TABLE["isposinf"](number), posinf, number)
    return _where(TABLE["isneginf"](number), neginf, number)
