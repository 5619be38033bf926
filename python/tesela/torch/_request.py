# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The request of a launch (all but q, k and v), as an object or as operators' arguments.

A variant must survive torch.compile, torch.export and another process, so operators take its text.
Values that may differ between calls (numbers, captured tensors) are further arguments, with their
parameters' names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from tesela._variant import Variant, as_variant

SCHEMA: Final = (
    "str variant, str[] number_names, Scalar[] numbers, str[] tensor_names, Tensor[] tensors, "
    "float? scale, bool is_bshd"
)
"""The arguments of an operator that represent a request."""

_is_compiling = torch.compiler.is_compiling


class Request(NamedTuple):
    """What attention computes, and the layout of its tensors.

    Attributes:
        variant: the variant.
        parameters: values that replace those that the variant is bound to, by name.
        scale: the scale of the scores; None: 1/sqrt(Dqk).
        is_bshd: whether q, k, v and the result are [B, S, H, D] instead of [B, H, S, D].
    """

    variant: Variant
    parameters: Mapping[str, Any]
    scale: float | None
    is_bshd: bool

    @property
    def given(self) -> dict[str, Any]:
        """The values by name of all parameters that have one."""
        return {**self.variant.bound, **self.parameters}


def _is_static(value: float) -> bool:
    # Imported here, because the module imports SymPy: that would make a first call 0.6 s longer.
    from torch.fx.experimental.symbolic_shapes import has_static_value

    return has_static_value(value)


def to_operator(request: Request) -> tuple[Any, ...]:
    """The arguments that ``SCHEMA`` declares."""
    number_names, numbers, tensor_names, tensors = [], [], [], []
    for name, value in request.given.items():
        if isinstance(value, Tensor):
            tensor_names.append(name)
            tensors.append(value)
        elif isinstance(value, float) and _is_compiling() and not _is_static(value):
            # As a number it would become a constant of the graph. As a tensor it stays an argument.
            tensor_names.append(name)
            tensors.append(torch.ones((), dtype=torch.float64) * value)
        elif value is not None:
            number_names.append(name)
            numbers.append(value)
    return (
        *(request.variant._program.line, number_names, numbers, tensor_names, tensors),
        *(request.scale, request.is_bshd),
    )


def from_operator(
    variant: str,
    number_names: Sequence[str],
    numbers: Sequence[Any],
    tensor_names: Sequence[str],
    tensors: Sequence[Tensor],
    scale: float | None,
    is_bshd: bool,
) -> Request:
    """The request from the arguments that ``SCHEMA`` declares."""
    names, values = (*number_names, *tensor_names), (*numbers, *tensors)
    given, found = dict(zip(names, values, strict=True)), as_variant(variant)
    if "dropout.p" in given:  # the text does not mention dropout
        found = found._dropping({})
    return Request(found, given, scale, is_bshd)


def tensors_of_operator(request: Sequence[Any]) -> dict[str, Tensor]:
    """The captured tensors among the arguments that ``SCHEMA`` declares, by name."""
    return dict(zip(request[3], request[4], strict=True))
