# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Translates Python functions into texts of Tesela's language."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .compiled import plan, values
from .error import TraceError
from .tracer import FLEX_MASK, FLEX_SCORE, STATEMENTS, check_names, held, traced

__all__ = ["TraceError", "plan_flex", "trace", "trace_flex", "values"]


def trace(
    function: Callable[..., Any], arguments: Mapping[str, Any] | None = None
) -> tuple[str, dict[str, Any]]:
    """The text of a function, and the values of the text's parameters.

    Args:
        function: gets indices by the names of its arguments (`b h hkv q k`, the extents `B H Hkv Sq
            Sk`, the score `s`, or FlexAttention's `batch head q_idx kv_idx score`). It returns a
            condition, which becomes the mask, or a number, which becomes the score.
        arguments: values for the function's other arguments, numbers or tensors. A function under
            the name `mask`, `score` or `sink` becomes that statement of the text; no argument may
            have such a name.

    Raises:
        TraceError: the function cannot be translated. The error points at the user's line, and says
            what is wrong there and what to write instead.
        InvalidArgumentError: no function has an argument of a given name.
    """
    if not arguments:
        return traced({"": function}, {}, {})
    others = {name: f for name, f in arguments.items() if name in STATEMENTS and callable(f)}
    absent = [name for name in STATEMENTS if name in arguments and arguments[name] is None]
    rest = {name: x for name, x in arguments.items() if name not in others and name not in absent}
    check_names((function, *others.values()), rest)
    return traced({"": function, **others}, rest, {})


def trace_flex(
    mask_mod: Callable[..., Any] | None, score_mod: Callable[..., Any] | None
) -> tuple[str, dict[str, Any]]:
    """The text of FlexAttention's functions. Their arguments are given by position."""
    return traced(_given(mask_mod, score_mod), {}, _FLEX)


def plan_flex(
    mask_mod: Callable[..., Any] | None, score_mod: Callable[..., Any] | None
) -> tuple[str, tuple[Any, ...]]:
    """For torch.compile: the text, and the arguments of `values` after the functions."""
    found, _ = held(_given(mask_mod, score_mod), {}, _FLEX)
    return found.text, tuple(plan(found))


_FLEX = {"mask": FLEX_MASK, "score": FLEX_SCORE}


def _given(
    mask_mod: Callable[..., Any] | None, score_mod: Callable[..., Any] | None
) -> dict[str, Callable[..., Any]]:
    functions = {"mask": mask_mod, "score": score_mod}
    return {name: function for name, function in functions.items() if function is not None}
