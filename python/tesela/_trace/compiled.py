# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Traces within torch.compile.

The text is a constant of PyTorch's graph. The values of its parameters are found by Python that
PyTorch follows, so that numbers and tensors are arguments of the graph. What decides the text is a
guard: where it changes, PyTorch compiles again.
"""

from __future__ import annotations

import types
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from .error import TraceError
from .paths import Cell, Global, Path

if TYPE_CHECKING:
    from .tracer import Trace

#: A step, as words that PyTorch can follow: what it is, and of what.
Steps = tuple[tuple[str, Any], ...]


def steps_of(path: Path) -> Steps:
    """A path in words."""
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
    """What `steps` lead to. PyTorch follows this function."""
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
    """Where the values of a trace are, and what must be where for it to hold.

    Attributes:
        parameters: names of parameters, paths to their values, and whether these are tensors
            without axes.
        conditions: paths, and what they lead to: a constant, or None of a function, whose code
            PyTorch guards when it goes there.
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
            continue  # PyTorch guards the type of an object whose attributes it reads
        if isinstance(expected, types.CodeType):
            conditions.append((steps_of(path[:-1]), None))
        else:
            is_constant = type(expected) in (bool, str, bytes, int, float)
            conditions.append((steps_of(path), expected if is_constant else None))
    shared = tuple((steps_of(one), steps_of(other)) for one, other in trace.shared)
    return Plan(tuple(parameters), tuple(conditions), shared)


def values(roots: tuple[Any, ...], parameters: Any, conditions: Any, shared: Any) -> dict[str, Any]:
    """The values of the parameters, by the parts of a plan. PyTorch follows this function."""
    for steps, expected in conditions:
        found = walked(roots, steps)
        is_other = found is roots if expected is None else found != expected
        if is_other:  # asking makes PyTorch look; what it saw becomes a guard
            raise RuntimeError("a traced function changed while torch.compile followed it")
    for steps, others in shared:
        if walked(roots, steps) is not walked(roots, others):
            raise RuntimeError("a traced function changed while torch.compile followed it")
    result = {}
    for name, steps, is_scalar in parameters:
        value = walked(roots, steps)
        result[name] = value.reshape(1) if is_scalar else value
    return result
