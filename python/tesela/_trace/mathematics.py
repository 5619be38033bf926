# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Functions of Python's `math` with more than one argument, or that the frameworks do not have."""

from __future__ import annotations

import math
from typing import Any

from .functions import apply, elementwise, f32, named
from .graph import F32, Graph, Node
from .value import TABLE, Traced


def _is_negative(graph: Graph, a: Node) -> Node:
    """Whether the sign bit is set; also of -0.0."""
    negative = graph.compare("<", a, graph.constant(0))
    if a.type != F32:
        return negative
    return graph.either(negative, graph.compare("==", _inverse(graph, a), f32(graph, -math.inf)))


def _inverse(graph: Graph, a: Node) -> Node:
    return graph.quotient(f32(graph, 1), a)


def _copysign(graph: Graph, a: Node, b: Node) -> Node:
    size = graph.absolute(graph.floating(a))
    return graph.select(_is_negative(graph, graph.number(b)), graph.negative(size), size)


def _square(graph: Graph, a: Node) -> Node:
    a = graph.floating(a)
    return graph.arithmetic("*", a, a)


def _hypotenuse(graph: Graph, *sides: Node) -> Node:
    total = _square(graph, sides[0])
    for each in sides[1:]:
        total = graph.arithmetic("+", total, _square(graph, each))
    return graph.call("sqrt", total)


def _cube_root(graph: Graph, a: Node) -> Node:
    size = graph.call("log", graph.absolute(graph.floating(a)))
    root = graph.call("exp", graph.arithmetic("*", size, f32(graph, 1 / 3)))
    return _copysign(graph, root, a)


def _factor(value: float) -> Any:
    return lambda graph, a: graph.arithmetic("*", graph.floating(a), f32(graph, value))


elementwise(_copysign, "copysign", operands=2)
elementwise(lambda graph, a: _is_negative(graph, graph.number(a)), "signbit", operands=1)
elementwise(_cube_root, "cbrt", operands=1)
elementwise(_hypotenuse, "hypot", operands=2)
elementwise(_factor(180 / math.pi), "rad2deg", "degrees", "math.degrees", operands=1)
elementwise(_factor(math.pi / 180), "deg2rad", "radians", "math.radians", operands=1)


@named("math.hypot")
def _math_hypot(*sides: Any) -> Any:
    return apply(_hypotenuse, *sides)


@named("math.log")
def _math_log(x: Any, base: Any = None) -> Any:
    if base is None:
        return TABLE["log"](x)
    x, base = (
        TABLE["log"](each) if isinstance(each, Traced) else math.log(each) for each in (x, base)
    )
    return x / base


def _floats(*values: Any) -> list[Any]:
    """Python's `math` computes with floats."""
    return [apply(Graph.floating, x) if isinstance(x, Traced) else float(x) for x in values]


@named("math.pow")
def _math_pow(x: Any, y: Any) -> Any:
    return TABLE["pow"](*_floats(x, y))


@named("math.fmod")
def _math_fmod(x: Any, y: Any) -> Any:
    return TABLE["fmod"](*_floats(x, y))


@named("math.remainder")
def _math_remainder(x: Any, y: Any) -> Any:
    """IEEE's remainder: the multiple of y that is nearest to x is taken away."""
    x, y = _floats(x, y)
    return x - TABLE["round"](x / y) * y


@named("math.prod")
def _math_prod(values: Any, start: Any = 1) -> Any:
    for each in values:
        start = start * each
    return start


@named("math.erfc", "erfc")
def _erfc(input: Any) -> Any:  # noqa: A002 - PyTorch's name
    return 1.0 - TABLE["erf"](input)
