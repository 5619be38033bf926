# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks of arguments. An error names the argument."""

from __future__ import annotations

import operator
from math import inf
from numbers import Real
from typing import Any

from tesela._errors import InvalidArgumentError, UnsupportedError

MOST_LENGTH = 2**31 - 4096
"""The largest length of a launch (runtime/launch/CheckedArguments.cpp)."""

MOST_WHOLE = 2**63 - 1
"""The largest whole number that the library takes."""


def whole(name: str, value: Any, least: int, most: int, remedy: str) -> int:
    """``value`` as a whole number within the limits."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if not least <= number <= most:
        raise InvalidArgumentError(
            f"{name} is {value!r}, it must be a whole number from {least} to {most}: {remedy}"
        )
    return number


def seconds_of(value: Any, remedy: str) -> float:
    """``value`` as a time limit."""
    seconds = float(value) if isinstance(value, Real) else -1
    if not 0 <= seconds < inf:
        raise InvalidArgumentError(
            f"seconds is {value!r}, it must be a finite number that is not negative: {remedy}"
        )
    return seconds


def switch(name: str, value: Any) -> bool:
    """``value`` as True or False."""
    if not hasattr(value, "__bool__"):  # as a text
        raise InvalidArgumentError(f"{name} is {value!r}, it must be True or False")
    return bool(value)


def without_memory(tensor: Any) -> str | None:
    """What is said about a tensor of PyTorch whose elements have no place in memory, or None."""
    if getattr(tensor, "is_meta", False):
        return "is on the device 'meta', where tensors have no memory: make it on q's device"
    layout = str(getattr(tensor, "layout", "torch.strided"))
    if layout != "torch.strided" and layout.startswith("torch."):
        return f"has the layout {layout}, it must be dense: write to_dense()"
    return None


def tensor_shape(name: str, tensor: Any, of: str) -> tuple[int, ...]:
    """The shape of a tensor in memory. ``of``: the axes that it should have."""
    shape = getattr(tensor, "shape", None)
    if shape is None:
        said = "None" if tensor is None else f"of the type {type(tensor)}"
        raise InvalidArgumentError(
            f"{name} is {said}: pass a tensor of PyTorch or NumPy with the axes {of}"
        )
    if getattr(tensor, "is_meta", False):
        raise InvalidArgumentError(
            f"{name} is on the device 'meta', where tensors have no memory: make it on q's device"
        )
    return tuple(shape)


def axes(name: str, tensor: Any, expected: int, of: str) -> tuple[int, ...]:
    """The shape of the argument ``name``, which must have as many axes as ``expected``."""
    shape = tensor_shape(name, tensor, of)
    if len(shape) != expected:
        raise InvalidArgumentError(f"{name} has the shape {shape}, it must have the axes {of}")
    return shape


def agree(of: str, first: str, count: int, second: str, other: int) -> None:
    """Raises an error unless two tensors have the same number of something."""
    if count != other:
        raise InvalidArgumentError(
            f"{first} has {count} {of}, and {second} has {other}: both must have the same number"
        )


def bound(name: str, value: Any) -> int:
    """An upper bound for the lengths of sequences."""
    if value is None:
        raise InvalidArgumentError(
            f"{name} is missing: pass an upper bound for every sequence of this launch; the "
            "lengths themselves are in the device's memory, and the host does not read them"
        )
    return whole(name, value, 0, MOST_LENGTH, "pass an upper bound for every sequence")


def tokens_before_heads(layout: Any) -> bool:
    """Whether the layout is "bshd"."""
    if layout not in ("bshd", "bhsd"):
        raise InvalidArgumentError(f"the layout is {layout!r}, it must be 'bshd' or 'bhsd'")
    return bool(layout == "bshd")


def is_narrow(name: str, tensor: Any) -> bool:
    """Whether the elements are e4m3. Other types of 8 bits are refused."""
    if tensor.dtype.itemsize != 1:
        return False
    if str(tensor.dtype).rpartition(".")[2] != "float8_e4m3fn":
        raise UnsupportedError(
            f"{name}'s elements are {tensor.dtype}: of the types with 8 bits, only float8_e4m3fn "
            "is supported; convert them"
        )
    return True
