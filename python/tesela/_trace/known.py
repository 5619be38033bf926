# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Computes expressions of captured numbers and shapes, as Python would."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from .graph import BOOL, F32, Node, number_of

_OPERATORS: Final[dict[str, Callable[..., Any]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "&&": lambda a, b: a and b,
    "||": lambda a, b: a or b,
    "|": operator.or_,
    "^": operator.xor,
    "%": lambda a, b: a % b if b else 0,
    "neg": operator.neg,
    "not": operator.not_,
    "float": float,
    "select": lambda c, a, b: a if c else b,
}
_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "min": min,
    "max": max,
    "clamp": lambda x, low, high: min(max(x, low), high),
    "abs": abs,
    "int": int,
    "floor": math.floor,
    "exp": math.exp,
    "log": lambda x: math.log(x) if x > 0 else (-math.inf if x == 0 else math.nan),
    "sqrt": lambda x: math.sqrt(x) if x >= 0 else math.nan,
    "tanh": math.tanh,
    "sin": math.sin,
    "cos": math.cos,
}


def value_of(node: Node, captured: Mapping[object, Any]) -> Any:
    """The value of a uniform node. `captured` has the values of captured numbers and extents."""
    op = node.op
    if op == "const":
        return node.payload if node.type == BOOL else number_of(node)
    if op in ("scalar", "extent"):
        return captured[node.payload]
    args = [value_of(arg, captured) for arg in node.args]
    if op == "/":
        a, b = args
        if node.type == F32:
            return a / b if b else math.copysign(math.inf, a) if a else math.nan
        return a // b if b else 0
    result = _FUNCTIONS[str(node.payload)](*args) if op == "call" else _OPERATORS[op](*args)
    return float(result) if node.type == F32 else result


def leaves_of(node: Node) -> set[object]:
    """The payloads of the captured numbers and extents that a node depends on."""
    if node.op in ("scalar", "extent"):
        return {node.payload}
    result: set[object] = set()
    for arg in node.args:
        result |= leaves_of(arg)
    return result
