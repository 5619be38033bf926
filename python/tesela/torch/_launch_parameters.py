# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A launch for the gradients of captured tensors and scalar parameters, on plain tensors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from tesela import _native
from tesela._native import Kernel
from tesela.torch._launch import _CUDA_TYPES, _HOST_TYPES, new_workspace
from tesela.torch._launch_backward import readable, with_numbers
from tesela.torch._request import Request


def _type_of(kernel: Kernel, lengths: tuple[int, int], name: str, wanted: Tensor) -> torch.dtype:
    """The type of the gradient of a parameter."""
    is_single = kernel.tensor_type(*lengths, f"d_{name}") == _native.F32
    return torch.float32 if is_single else wanted.dtype


def launch_parameters(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    grad_of_lse: Tensor | None,
    request: Request,
    names: Sequence[str],
) -> list[Tensor]:
    """Computes the gradients of some parameters, on the current stream of q's device.

    Args:
        grad: the arguments up to the request are those of launch_backward.
        q: see grad.
        k: see grad.
        v: see grad.
        out: see grad.
        lse: see grad.
        grad_of_lse: see grad.
        request: see grad. The parameters of ``names`` must be tensors.
        names: the names of the parameters.

    Returns:
        The gradients, with the shape, element type and device of each parameter, contiguous.
    """
    wanted: list[Tensor] = [request.given[name] for name in names]
    if q.numel() == 0 or k.numel() == 0:  # without pairs the gradients are 0
        return [each.new_zeros(each.shape) for each in wanted]
    variant = request.variant
    values, constants = variant._arguments(request.parameters)
    device, is_cuda = q.get_device(), q.is_cuda
    kernel = variant._kernel(
        (_CUDA_TYPES if is_cuda else _HOST_TYPES)[q.dtype],
        *(q.shape[3], v.shape[3], device, constants, "backward_parameters"),
        bindings=tuple(f"gradient={name}" for name in names),
    )
    # The gradient of a scalar has one axis. Some gradients have the parameter's own element type.
    scalars = {each.name for each in variant.parameters if each.shape is None}
    lengths = (q.shape[1], k.shape[1]) if request.is_bshd else (q.shape[2], k.shape[2])
    results = [
        q.new_empty(
            (1,) if name in scalars else each.shape, dtype=_type_of(kernel, lengths, name, each)
        )
        for name, each in zip(names, wanted, strict=True)
    ]
    if grad_of_lse is not None:
        grad_of_lse = grad_of_lse.contiguous()
    stream, allocate = 0, None
    if is_cuda:
        stream = torch._C._cuda_getCurrentRawStream(device)
        allocate = partial(new_workspace, device=device)
    kernel.launch_parameters(
        *(q, k, v, out, lse.contiguous(), readable(grad), grad_of_lse),
        *(request.scale, with_numbers(values), request.is_bshd, stream, allocate),
        *(tuple(f"d_{name}" for name in names), tuple(results)),
    )
    return [
        result.reshape(each.shape).to(each.device, each.dtype)
        for result, each in zip(results, wanted, strict=True)
    ]
