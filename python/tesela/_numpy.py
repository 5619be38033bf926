# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention over NumPy arrays, on the host."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tesela import _native
from tesela._contexts import HOST
from tesela._dropout import of_seed
from tesela._errors import InvalidArgumentError, UnsupportedError
from tesela._serving import HEADS_APART, ROWS_APART, Place
from tesela._variant import Variant, as_variant

_NAMES = {"float32": _native.F32, "float16": _native.F16, "bfloat16": _native.BF16}
_types: dict[np.dtype[Any], int] = {}
"""dtype -> the library's number of the type. Looking up the name of a dtype takes microseconds."""


def _input_type(dtype: np.dtype[Any], name: str = "q") -> int:
    found = _NAMES.get(str(dtype))
    if found is None:
        raise UnsupportedError(
            f"{name}'s elements are {dtype}, they must be float32, float16 or bfloat16 (of "
            "ml_dtypes): convert them"
        )
    _types[dtype] = found
    return found


class Serving:
    """The functions that ``tesela._serving`` needs from a framework."""

    @staticmethod
    def place(tensor: np.ndarray[Any, Any], name: str = "q", is_part: bool = False) -> Place:
        """The type and the device of an argument, for a launch."""
        found = _types.get(tensor.dtype)
        return Place(_input_type(tensor.dtype, name) if found is None else found, HOST, 0, None)

    @staticmethod
    def empty(
        like: np.ndarray[Any, Any], shape: tuple[int, ...], is_f32: bool
    ) -> np.ndarray[Any, Any]:
        """A new array, in the type of ``like`` or in float32."""
        return np.empty(shape, np.float32 if is_f32 else like.dtype)

    @staticmethod
    def stack(tensors: Sequence[Any]) -> np.ndarray[Any, Any]:
        """The arrays as one array, with a new first axis."""
        return np.stack(tensors)

    @staticmethod
    def number(like: np.ndarray[Any, Any], value: float) -> np.ndarray[Any, Any]:
        """``value`` as a float32 array with one element."""
        return np.array([value], np.float32)

    @staticmethod
    def refuse_gradients(tensors: Sequence[Any]) -> None:
        """Does nothing: arrays have no gradients."""

    @staticmethod
    def memory(tensor: np.ndarray[Any, Any]) -> tuple[int, tuple[int, ...], int]:
        """The address, the strides in bytes, and the size of an element."""
        return tensor.ctypes.data, tensor.strides, tensor.itemsize

    @staticmethod
    def rows_of_pages(name: str, pages: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The same memory as pages of one row each."""
        rows = pages.reshape((-1, 1, *pages.shape[2:]))
        if pages.size and not np.shares_memory(rows, pages):
            raise InvalidArgumentError(f"{name}{ROWS_APART}")
        return rows

    @staticmethod
    def pieces_of_heads(
        name: str, tensor: np.ndarray[Any, Any], pieces: int
    ) -> np.ndarray[Any, Any]:
        """The same memory, with each head's columns cut into so many heads."""
        *outer, heads, columns = tensor.shape
        cut = tensor.reshape((*outer, heads * pieces, columns // pieces))
        if tensor.size and not np.shares_memory(cut, tensor):
            raise InvalidArgumentError(f"{name}{HEADS_APART}")
        return cut

    @staticmethod
    def query_rows(starts_q: Any, lengths: Any, tokens: int) -> tuple[Any, Any, Any]:
        """For each token: its position, its sequence, and the sequence's number of keys."""
        t = np.arange(tokens, dtype=np.int32)
        if len(lengths) == 0:
            return t, t, t
        found = np.searchsorted(starts_q[1:], t, side="right")
        sequences = np.minimum(found, len(lengths) - 1).astype(np.int32)
        keys = lengths[sequences]
        return keys - starts_q[1:][sequences] + t, sequences, keys


def dropout(_: Any, seed: Any) -> dict[str, Any]:
    """The parameters of dropout other than the probability."""
    return of_seed(seed)


def attention(
    q: np.ndarray[Any, Any],
    k: Any,
    v: Any,
    variant: Variant | str | os.PathLike[str],
    scale: float | None,
    return_lse: bool,
    is_bshd: bool,
    out: np.ndarray[Any, Any] | None,
    parameters: Mapping[str, Any],
) -> Any:
    """See :func:`tesela.attention`."""
    shape = q.shape
    if len(shape) != 4 or getattr(v, "ndim", None) != 4:
        raise InvalidArgumentError(
            f"q has the shape {shape} and v {getattr(v, 'shape', None)}: each must have four "
            "axes, [batch, heads, length, head dimension], or the order that layout names"
        )
    dtype = q.dtype
    input_type = _types.get(dtype)
    if input_type is None:
        input_type = _input_type(dtype)
    variant = as_variant(variant)
    values, constants = variant._arguments(parameters)
    head_dim_v = v.shape[3]
    kernel = variant._kernel(input_type, shape[3], head_dim_v, HOST, constants)
    if out is None:
        out = np.empty((*shape[:3], head_dim_v), dtype)
    if not return_lse:
        kernel.launch(q, k, v, out, None, scale, values, is_bshd, 0, None)
        return out
    heads, queries = (2, 1) if is_bshd else (1, 2)
    lse = np.empty((shape[0], shape[heads], shape[queries]), np.float32)
    kernel.launch(q, k, v, out, lse, scale, values, is_bshd, 0, None)
    return out, lse
