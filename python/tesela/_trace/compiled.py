# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Traces within torch.compile.

The text is a constant of PyTorch's graph. Python code that PyTorch traces finds the values of its
parameters, so numbers and tensors become arguments of the graph. Whatever decides the text becomes
a guard: if it changes, PyTorch compiles again.
"""

from __future__ import annotations

import types
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from .error import TraceError
from .paths import Cell, Global, Path

if TYPE_CHECKING:
    from .tracer import Trace

#: A step of a path in plain values that PyTorch can trace: (kind, key).
Steps = tuple[tuple[str, Any], ...]


def steps_of(path: Path) -> Steps:
    """A path as plain values."""
    return tuple(map(_word, path))


def _word(step: Any) -> tuple[str, Any]:
    if isinstance(step, Cell):
        return "cell", step.index
    if isinstance(step, Global):
        return "global", step.name
    if isinstance(step, (attrgetter, itemgetter)):
        return type(step).__name__, step.__reduce__()[1][0]
    if step is len:
        return "len", None
    raise TraceError(
        f"torch.compile cannot follow {step!r} of a captured object; make the variant outside of "
        "the compiled code"
    )


def walked(value: Any, steps: Steps) -> Any:
    """The object at the end of `steps`. PyTorch traces this function."""
    for kind, key in steps:
        if kind == "cell":
            value = value.__closure__[key].cell_contents
        elif kind == "global":
            value = value.__globals__[key]
        elif kind == "attrgetter":
            value = getattr(value, key)
        elif kind == "itemgetter":
            value = value[key]
        else:
            value = len(value)
    return value


class Plan(NamedTuple):
    """Where the values of a trace's parameters are, and the conditions for the trace.

    Attributes:
        parameters: for each parameter its name, the path to its value, and whether the value is a
            tensor without axes.
        conditions: a path, and the constant that it must lead to; None for a function, whose code
            PyTorch guards itself.
        shared: pairs of paths that lead to the same tensor.
    """

    parameters: tuple[tuple[str, Steps, bool], ...]
    conditions: tuple[tuple[Steps, Any], ...]
    shared: tuple[tuple[Steps, Steps], ...]


def plan(trace: Trace) -> Plan:
    """The plan of a trace."""
    parameters = []
    for name, capture in trace.parameters:
        if capture.path is None:
            raise TraceError(
                "the function makes a tensor; under torch.compile, make the tensor outside of the "
                "function"
            )
        parameters.append((name, steps_of(capture.path), capture.is_scalar))
    conditions: list[tuple[Steps, Any]] = []
    for path, expected in [*trace.conditions, *trace.specialized]:
        if path[-1] is type:
            continue  # PyTorch guards the type of an object whose attributes are read
        if isinstance(expected, types.CodeType):
            conditions.append((steps_of(path[:-1]), None))
        else:
            is_constant = type(expected) in (bool, str, bytes, int, float)
            conditions.append((steps_of(path), expected if is_constant else None))
    shared = tuple((steps_of(one), steps_of(other)) for one, other in trace.shared)
    return Plan(tuple(parameters), tuple(conditions), shared)


def values(roots: tuple[Any, ...], parameters: Any, conditions: Any, shared: Any) -> dict[str, Any]:
    """The values of the parameters, from the parts of a plan. PyTorch traces this function."""
    for steps, expected in conditions:
        found = walked(roots, steps)
        is_other = found is roots if expected is None else found != expected
        if is_other:  # because of this test PyTorch makes a guard for the value
            raise RuntimeError("a traced function changed while torch.compile followed it")
    for steps, others in shared:
        if walked(roots, steps) is not walked(roots, others):
            raise RuntimeError("a traced function changed while torch.compile followed it")
    result = {}
    for name, steps, is_scalar in parameters:
        value = walked(roots, steps)
        result[name] = value.reshape(1) if is_scalar else value
    return result
