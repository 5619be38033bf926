# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What serving asks of PyTorch: its current stream and its allocator."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from tesela._errors import UnsupportedError
from tesela._serving import Place
from tesela.torch._launch import _CUDA_TYPES, _HOST_TYPES, new_workspace, why_no_kernel


class Serving:
    """What ``tesela._serving`` asks of a framework."""

    @staticmethod
    def place(q: Tensor) -> Place:
        """Where a launch over q runs."""
        input_type = (_CUDA_TYPES if q.is_cuda else _HOST_TYPES).get(q.dtype)
        reason = why_no_kernel(q)
        if input_type is None or reason is not None:
            raise UnsupportedError(reason or "q must be a dense tensor: convert it")
        device = q.get_device()
        if not q.is_cuda:
            return Place(input_type, device, 0, None)
        stream = torch._C._cuda_getCurrentRawStream(device)
        return Place(input_type, device, stream, partial(new_workspace, device=device))

    @staticmethod
    def empty(like: Tensor, shape: tuple[int, ...], is_f32: bool) -> Tensor:
        """A new tensor on the device of ``like``, of its type or of float32."""
        return like.new_empty(shape, dtype=torch.float32 if is_f32 else like.dtype)

    @staticmethod
    def stack(tensors: Sequence[Tensor]) -> Tensor:
        """The tensors as one, with an axis for them in front."""
        return torch.stack(tuple(tensors))
