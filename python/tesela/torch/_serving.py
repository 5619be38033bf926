# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The functions that serving needs from PyTorch, with its current stream and its allocator."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from tesela._errors import InvalidArgumentError, UnsupportedError
from tesela._serving import HEADS_APART, ROWS_APART, Place
from tesela.torch._gradients import has_tangent, requires_grad
from tesela.torch._launch import _CUDA_TYPES, _HOST_TYPES, new_workspace, why_no_kernel

_NO_GRADIENTS = (
    "an argument requires a gradient, and ragged, paged and merged attention has none: call it "
    "under torch.no_grad(), or train with tesela.attention, padded, or with one row of documents "
    "and the variant 'documents_causal', which skips what lies between them"
)


class Serving:
    """The functions that ``tesela._serving`` needs from a framework."""

    @staticmethod
    def place(tensor: Tensor, name: str = "q", is_part: bool = False) -> Place:
        """The type, the device and the stream of an argument, for a launch."""
        has_f32 = tensor.is_cpu or is_part  # parts are float32 on CUDA, too
        input_type = (_HOST_TYPES if has_f32 else _CUDA_TYPES).get(tensor.dtype)
        is_f32_part = is_part and tensor.is_cuda and tensor.dtype is torch.float32
        reason = None if is_f32_part else why_no_kernel(tensor, name)
        if input_type is None or reason is not None:
            raise UnsupportedError(reason or f"{name} must be a dense tensor: convert it")
        device = tensor.get_device()
        if not tensor.is_cuda:
            return Place(input_type, device, 0, None)
        stream = torch._C._cuda_getCurrentRawStream(device)
        return Place(input_type, device, stream, partial(new_workspace, device=device))

    @staticmethod
    def empty(like: Tensor, shape: tuple[int, ...], is_f32: bool) -> Tensor:
        """A new tensor on the device of ``like``, in its type or in float32."""
        return like.new_empty(shape, dtype=torch.float32 if is_f32 else like.dtype)

    @staticmethod
    def stack(tensors: Sequence[Tensor]) -> Tensor:
        """The tensors as one tensor, with a new first axis."""
        return torch.stack(tuple(tensors))

    @staticmethod
    def number(like: Tensor, value: float) -> Tensor:
        """``value`` on the device of ``like``, as a float32 tensor with one element."""
        return torch.full((1,), value, dtype=torch.float32, device=like.device)

    @staticmethod
    def refuse_gradients(tensors: Sequence[object]) -> None:
        """Raises UnsupportedError if one of the tensors would need a gradient."""
        for tensor in tensors:
            if requires_grad(tensor) or has_tangent(tensor):
                raise UnsupportedError(_NO_GRADIENTS)

    @staticmethod
    def memory(tensor: Tensor) -> tuple[int, tuple[int, ...], int]:
        """The address, the strides in bytes, and the size of an element."""
        size = tensor.element_size()
        return tensor.data_ptr(), tuple(each * size for each in tensor.stride()), size

    @staticmethod
    def rows_of_pages(name: str, pages: Tensor) -> Tensor:
        """The same memory as pages of one row each."""
        try:
            return pages.view(-1, 1, *pages.shape[2:])
        except RuntimeError:
            raise InvalidArgumentError(f"{name}{ROWS_APART}") from None

    @staticmethod
    def pieces_of_heads(name: str, tensor: Tensor, pieces: int) -> Tensor:
        """The same memory, with each head's columns cut into so many heads."""
        *outer, heads, columns = tensor.shape
        try:
            return tensor.view(*outer, heads * pieces, columns // pieces)
        except RuntimeError:
            raise InvalidArgumentError(f"{name}{HEADS_APART}") from None

    @staticmethod
    def query_rows(starts_q: Tensor, lengths: Tensor, tokens: int) -> tuple[Tensor, Tensor, Tensor]:
        """For each token: its position, its sequence, and the sequence's number of keys."""
        t = torch.arange(tokens, device=starts_q.device, dtype=torch.int32)
        if len(lengths) == 0:
            return t, t, t
        found = torch.searchsorted(starts_q[1:], t, right=True, out_int32=True)
        sequences = found.clamp_(max=len(lengths) - 1)
        keys = lengths.index_select(0, sequences)
        return keys - starts_q[1:].index_select(0, sequences) + t, sequences, keys
