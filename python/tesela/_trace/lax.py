# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# ruff: noqa: A002 - arguments have the names that JAX uses
"""Functions of jax.lax that differ from those of the same names in other frameworks."""

from __future__ import annotations

from typing import Any

from .arrays import axes_of
from .error import error
from .functions import apply, named, truncated
from .graph import F32, Graph, Node
from .value import TABLE


@named("lax.max")
def _max(x: Any, y: Any) -> Any:
    return TABLE["maximum"](x, y)


@named("lax.min")
def _min(x: Any, y: Any) -> Any:
    return TABLE["minimum"](x, y)


@named("lax.clamp")
def _clamp(min: Any, x: Any, max: Any) -> Any:
    return TABLE["clamp"](x, min, max)


@named("lax.select")
def _select(pred: Any, on_true: Any, on_false: Any) -> Any:
    return TABLE["where"](pred, on_true, on_false)


@named("lax.div")
def _div(x: Any, y: Any) -> Any:
    """The quotient; that of integers is rounded towards zero."""

    def function(graph: Graph, a: Node, b: Node) -> Node:
        if F32 in (a.type, b.type):
            return graph.quotient(a, b)
        return truncated(graph, a, b)

    return apply(function, x, y)


@named("lax.round")
def _round(x: Any, rounding_method: Any = 0) -> Any:
    """A half is rounded away from zero, unless the method is TO_NEAREST_EVEN."""
    if int(rounding_method) == 1:
        return TABLE["round"](x)
    if int(rounding_method) != 0:
        raise error(f"the rounding method {rounding_method} of lax.round cannot be traced")
    size = TABLE["abs"](x)
    low = TABLE["floor"](size)
    size = TABLE["where"](size - low >= 0.5, low + 1.0, low)
    return TABLE["where"](x < 0, -size, size)


@named("lax.squeeze")
def _squeeze(array: Any, dimensions: Any) -> Any:
    for each in sorted(axes_of(dimensions, array.ndim), reverse=True):
        array = TABLE["squeeze"](array, each)
    return array


@named("lax.expand_dims")
def _expand_dims(array: Any, dimensions: Any) -> Any:
    for each in sorted(axes_of(dimensions, array.ndim + len(dimensions))):
        array = TABLE["unsqueeze"](array, each)
    return array
