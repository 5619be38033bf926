# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# ruff: noqa: A002, A006 - arguments have the names that the frameworks use
"""Conversions between types, and functions that make values from other values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from .error import error
from .functions import apply, graph_of, named
from .graph import Graph
from .value import ALIASES, TABLE, Traced, operand

_INTEGERS: Final = ("int32", "int64", "int", "long", "i32", "i64")
_FLOATS: Final = ("float32", "float16", "bfloat16", "float", "half")
#: Rounding to these narrower types is not done: everything is computed in f32.


def converted(input: Any, dtype: Any) -> Any:
    """`input` in the type that a framework, NumPy or Python calls `dtype`."""
    name = getattr(dtype, "__name__", None) or str(getattr(dtype, "name", None) or dtype)
    name = name.rpartition(".")[2]
    if name in _INTEGERS:
        return apply(Graph.integer, input)
    if name in _FLOATS:
        return apply(Graph.floating, input)
    if name in ("bool", "bool_"):
        return apply(Graph.boolean, input)
    if name == "float64" or name == "double":
        raise error("Tesela computes in f32; write torch.float32 or .float() for float64")
    raise error(f"Tesela has i32, f32 and bool; a value was converted to {name}")


@named("to", "type", "astype", "asarray", "array", "as_tensor", "tensor", "_to_copy")
def _to(input: Any, dtype: Any = None, *rest: Any) -> Any:
    for each in (dtype, *rest):
        if isinstance(each, Traced):
            return converted(input, each.dtype)
        if each is None or isinstance(each, bool) or "device" in type(each).__name__:
            continue
        name = str(each)
        if name.partition(":")[0] in ("cpu", "cuda", "meta", "xla", "mps"):
            continue
        return converted(input, each)
    return input


@named("type_as")
def _type_as(input: Any, other: Any) -> Any:
    return converted(input, other.dtype)


@named("result_type")
def _result_type(*inputs: Any) -> Any:
    return (inputs[0] + inputs[-1]).dtype


for _name in ("int", "long", "float", "half", "bfloat16", "bool", "double"):
    TABLE[_name] = lambda input, _type=_name: converted(input, _type)
ALIASES["int32"], ALIASES["int64"], ALIASES["float32"] = "int", "int", "float"


@named("clone", "detach", "contiguous", "cpu", "cuda", "copy", "identity", "requires_grad_")
@named("lift_fresh", "lift", "alias", "stop_gradient", "ascontiguousarray", "real", "conj")
def _same(input: Any, *_: Any, **__: Any) -> Any:
    return input


# Functions that make values


def _full(input: Any, value: Any, dtype: Any = None) -> Any:
    graph = graph_of(input)
    result = operand(graph, value)
    if dtype is None:
        return converted(result, input.dtype) if isinstance(input, Traced) else result
    return converted(result, dtype)


def _filled(value: float) -> Callable[..., Any]:
    def function(
        input: Any, *args: Any, dtype: Any = None, size: Any = (), shape: Any = None
    ) -> Any:
        if any(args) or size or shape:
            raise error("a tensor with axes cannot be made from a traced value; make it outside")
        return _full(input, value, dtype)

    return function


for _name, _value in (("zeros", 0), ("ones", 1)):
    named(f"{_name}_like", f"new_{_name}")(_filled(_value))


@named("full_like")
def _full_like(input: Any, fill_value: Any, dtype: Any = None, shape: Any = None) -> Any:
    if shape:
        raise error("a tensor with axes cannot be made from a traced value; make it outside")
    return _full(input, fill_value, dtype)


@named("new_full")
def _new_full(input: Any, size: Any, fill_value: Any, dtype: Any = None) -> Any:
    return _filled(fill_value)(input, size, dtype=dtype)


@named("new_tensor")
def _new_tensor(input: Any, data: Any, dtype: Any = None) -> Any:
    return _to(operand(graph_of(input), data), dtype)
