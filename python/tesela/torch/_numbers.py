# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arguments of a call that must be numbers, given as tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tesela._errors import InvalidArgumentError, UnsupportedError
from tesela.torch._gradients import has_tangent, requires_grad

_is_compiling = torch.compiler.is_compiling


def number(name: str, value: Any) -> Any:
    """The number in a tensor that is given for an argument; any other value as it is.

    Reading a number waits for the tensor's device.

    Args:
        name: the argument, "scale" or "dropout_p".
        value: its value.

    Raises:
        InvalidArgumentError: the tensor does not have one element.
        UnsupportedError: a gradient is asked for, or compiled code cannot read the number.
    """
    if not isinstance(value, Tensor):
        return value
    if value.numel() != 1:
        raise InvalidArgumentError(
            f"{name} is a tensor of the shape {tuple(value.shape)}, it must be a number, or a "
            "tensor of one element"
        )
    remedy = f"pass a number, as {name}.item()"
    if name == "scale":
        remedy += (
            "; for a factor that is a tensor, or that is trained, declare an f32 parameter and "
            "multiply the score by it (score = s * temperature), and pass scale=1"
        )
    if requires_grad(value) or has_tangent(value):
        raise UnsupportedError(
            f"{name} is a tensor that requires a gradient, and {name} has none: {remedy}"
        )
    if _is_compiling():
        raise UnsupportedError(
            f"{name} is a tensor, and in code that PyTorch compiles it must be a number, which is "
            f"known while it compiles: outside of that code, {remedy}"
        )
    return value.item()
