# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# ruff: noqa: A002 - arguments have the names that the frameworks use
"""Further functions of f32, and activations of neural networks, from functions of the language."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .functions import elementwise, f32, named
from .graph import Graph, Node
from .value import TABLE


def _call(name: str) -> Callable[..., Node]:
    return lambda graph, a: graph.call(name, a)


for _name in ("exp", "log", "sqrt", "tanh", "sin", "cos"):
    elementwise(_call(_name), _name, operands=1)


def _scaled(name: str, before: float = 1, after: float = 1) -> Callable[..., Node]:
    """The function `after * name(before * x)`."""

    def function(graph: Graph, a: Node) -> Node:
        if before != 1:
            a = graph.arithmetic("*", a, f32(graph, before))
        a = graph.call(name, a)
        return a if after == 1 else graph.arithmetic("*", a, f32(graph, after))

    return function


elementwise(_scaled("exp", before=math.log(2)), "exp2", operands=1)
elementwise(_scaled("log", after=1 / math.log(2)), "log2", operands=1)
elementwise(_scaled("log", after=1 / math.log(10)), "log10", operands=1)
elementwise(
    lambda graph, a: graph.quotient(f32(graph, 1), graph.call("sqrt", a)), "rsqrt", operands=1
)
elementwise(
    lambda graph, a: graph.quotient(graph.call("sin", a), graph.call("cos", a)), "tan", operands=1
)


def _log1p(graph: Graph, a: Node) -> Node:
    """Near 0 the series 2 (z + z^3/3 + z^5/5 + z^7/7) of z = x / (2 + x), elsewhere log(1 + x).

    Below 0.25 the series is exact to 3e-8; beyond, the rounding of 1 + x is below 3e-7 of the
    result. No formula with (1 + x) - 1 is used, because a score's sums may be reordered.
    """
    a = graph.floating(a)
    z = graph.quotient(a, graph.arithmetic("+", f32(graph, 2), a))
    square = graph.arithmetic("*", z, z)
    series = f32(graph, 1 / 7)
    for odd in (5, 3, 1):
        series = graph.arithmetic("+", graph.arithmetic("*", series, square), f32(graph, 1 / odd))
    series = graph.arithmetic("*", graph.arithmetic("*", z, series), f32(graph, 2))
    is_near = graph.compare("<", graph.absolute(a), f32(graph, 0.25))
    log = graph.call("log", graph.arithmetic("+", f32(graph, 1), a))
    return graph.select(is_near, series, log)


def _expm1(graph: Graph, a: Node) -> Node:
    """Kahan's formula: (u - 1) x / log(u) with u = exp(x)."""
    a, one = graph.floating(a), f32(graph, 1)
    u = graph.call("exp", a)
    less = graph.arithmetic("-", u, one)
    scaled = graph.quotient(graph.arithmetic("*", less, a), graph.call("log", u))
    ends = graph.either(
        graph.compare("==", less, f32(graph, -1)), graph.compare("==", u, f32(graph, math.inf))
    )
    return graph.select(graph.compare("==", u, one), a, graph.select(ends, less, scaled))


def _sigmoid(graph: Graph, a: Node) -> Node:
    one = f32(graph, 1)
    return graph.quotient(
        one, graph.arithmetic("+", one, graph.call("exp", graph.negative(graph.floating(a))))
    )


def _erf(graph: Graph, a: Node) -> Node:
    """Formula 7.1.26 of Abramowitz and Stegun; its error is at most 1.5e-7."""
    a = graph.floating(a)
    size, one = graph.absolute(a), f32(graph, 1)
    t = graph.quotient(
        one, graph.arithmetic("+", one, graph.arithmetic("*", size, f32(graph, 0.3275911)))
    )
    total = f32(graph, 1.061405429)
    for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        total = graph.arithmetic("+", graph.arithmetic("*", total, t), f32(graph, factor))
    total = graph.arithmetic("*", total, t)
    bell = graph.call("exp", graph.negative(graph.arithmetic("*", a, a)))
    result = graph.arithmetic("-", one, graph.arithmetic("*", total, bell))
    return graph.select(graph.compare("<", a, f32(graph, 0)), graph.negative(result), result)


elementwise(_log1p, "log1p", operands=1)
elementwise(_expm1, "expm1", operands=1)
elementwise(_sigmoid, "sigmoid", "expit", operands=1)
elementwise(_erf, "erf", operands=1)


@named("sinh")
def _sinh(input: Any) -> Any:
    exp = TABLE["exp"]
    return (exp(input) - exp(-input)) * 0.5


@named("cosh")
def _cosh(input: Any) -> Any:
    exp = TABLE["exp"]
    return (exp(input) + exp(-input)) * 0.5


# Activations


@named("relu")
def _relu(input: Any, inplace: bool = False) -> Any:
    return TABLE["clamp"](input, 0)


@named("leaky_relu")
def _leaky_relu(input: Any, negative_slope: float = 0.01, inplace: bool = False) -> Any:
    return TABLE["where"](input > 0, input, input * negative_slope)


@named("elu")
def _elu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    return TABLE["where"](input > 0, input, TABLE["expm1"](input) * alpha)


@named("silu", "swish")
def _silu(input: Any, inplace: bool = False) -> Any:
    return input * TABLE["sigmoid"](input)


@named("softplus")
def _softplus(input: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    scaled = input * beta
    return TABLE["where"](scaled > threshold, input, TABLE["log1p"](TABLE["exp"](scaled)) / beta)


@named("logsigmoid", "log_sigmoid")
def _logsigmoid(input: Any) -> Any:
    return -_softplus(-input)


@named("hardtanh")
def _hardtanh(
    input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Any:
    return TABLE["clamp"](input, min_val, max_val)


@named("gelu")
def _gelu(input: Any, approximate: Any = "none") -> Any:
    """PyTorch's gelu. JAX's `approximate=True`, its default, means 'tanh'."""
    if approximate in ("tanh", True):
        inner = (input + 0.044715 * input * input * input) * math.sqrt(2 / math.pi)
        return input * 0.5 * (1.0 + TABLE["tanh"](inner))
    return input * 0.5 * (1.0 + TABLE["erf"](input * math.sqrt(0.5)))
