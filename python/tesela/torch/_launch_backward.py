# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A launch of the gradients of q, k and v over plain tensors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor

from tesela.torch._launch import _CUDA_TYPES, _HOST_TYPES, new_output, new_workspace
from tesela.torch._request import Request

_CUDA_ALIGNMENT: Final = 16  # bytes, for addresses and strides
_any_requires_grad: Any = torch._C._any_requires_grad


def gradient_algorithm(is_cuda: bool) -> str:
    """The algorithm for the gradients of q, k and v, as PyTorch's switch for determinism says.

    On the CPU the faster algorithm is deterministic, too.
    """
    asks = is_cuda and torch.are_deterministic_algorithms_enabled()
    return "backward" if asks else "backward_fast"


def _new_gradient(tensor: Tensor) -> Tensor:
    """What ``new_output`` makes, but by one call of PyTorch where that gives the same."""
    made = torch.empty_like(tensor)
    if tensor.is_contiguous():
        return made
    strides = made.stride()
    if strides[3] == 1 and strides[0] * made.shape[0] == made.numel():
        return made
    return new_output(tensor, tensor.shape[3])  # batches not outside, or overlapping views


def new_gradients(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Tensors for the gradients, with the shapes of q, k and v and their axes' order in memory."""
    return _new_gradient(q), _new_gradient(k), _new_gradient(v)


def _is_readable(grad: Tensor) -> bool:
    """Whether a kernel can read a gradient in place."""
    if grad.stride(3) != 1 or 0 in grad.stride():
        return False
    if not grad.is_cuda:
        return True
    size = grad.element_size()
    strides = (grad.stride(axis) for axis in range(3) if grad.shape[axis] > 1)
    return grad.data_ptr() % _CUDA_ALIGNMENT == 0 and all(
        stride * size % _CUDA_ALIGNMENT == 0 for stride in strides
    )


def readable(grad: Tensor) -> Tensor:
    """The gradient, or a copy if a kernel cannot read it in place."""
    return grad if _is_readable(grad) else grad.clone(memory_format=torch.contiguous_format)


def with_numbers(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Replaces tensors without axes by numbers. Reading one waits for its device."""
    return tuple(
        value.item() if isinstance(value, Tensor) and value.dim() == 0 else value
        for value in values
    )


def begin_gradients(
    q: Tensor, k: Tensor, v: Tensor, request: Request, names: Sequence[str]
) -> None:
    """Starts to compile the gradients' kernels while the forward pass's kernel is compiled.

    So the first step waits for the slowest of them, not for the sum. Does nothing if they exist
    already or are being compiled.

    Args:
        q: q, k, v and the request are those of the forward launch.
        k: see q.
        v: see q.
        request: see q.
        names: the names of the trained parameters.
    """
    variant = request.variant
    _, constants = variant._arguments(request.parameters)
    kind = (_CUDA_TYPES if q.is_cuda else _HOST_TYPES).get(q.dtype)
    if kind is None or q.dim() != 4 or v.dim() != 4:
        return  # the launch says what is wrong
    which = (kind, q.shape[3], v.shape[3], q.get_device(), constants)
    axis = 1 if request.is_bshd else 2
    lengths = q.shape[axis], k.shape[axis]
    if _any_requires_grad(q, k, v):
        variant._begin(*lengths, (*which, gradient_algorithm(q.is_cuda)))
    if names:
        bindings = tuple(f"gradient={name}" for name in names)
        variant._begin(*lengths, (*which, "backward_parameters"), bindings)


def launch_backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    grad_of_lse: Tensor | None,
    request: Request,
    into: Sequence[Tensor | None] = (None, None, None),
) -> tuple[Tensor, Tensor, Tensor]:
    """Computes the gradients of q, k and v, on the current stream of q's device.

    Args:
        grad: the gradient of the result, with any strides. It is copied if a kernel cannot read it
            (expanded, or not aligned).
        q: q, k, v and the request are those of the forward launch.
        k: see q.
        v: see q.
        out: the result of the forward launch.
        lse: the logarithms, [B, H, Sq] in float32.
        grad_of_lse: the gradient of the logarithms, [B, H, Sq] in float32; None means zeros.
        request: see q.
        into: tensors for the gradients of q, k and v; None: a new tensor.
    """
    dq, dk, dv = (
        _new_gradient(x) if given is None else given
        for x, given in zip((q, k, v), into, strict=True)
    )
    if q.numel() == 0 or k.numel() == 0:  # without pairs the gradients are 0
        return dq.zero_(), dk.zero_(), dv.zero_()
    variant = request.variant
    values, constants = variant._arguments(request.parameters)
    values = with_numbers(values)
    device, is_cuda = q.get_device(), q.is_cuda
    kind = (_CUDA_TYPES if is_cuda else _HOST_TYPES)[q.dtype]
    algorithm = gradient_algorithm(is_cuda)
    kernel = variant._kernel(kind, q.shape[3], v.shape[3], device, constants, algorithm)
    if grad_of_lse is not None:
        grad_of_lse = grad_of_lse.contiguous()
    stream, allocate = 0, None
    if is_cuda:
        stream = torch._C._cuda_getCurrentRawStream(device)
        allocate = partial(new_workspace, device=device)
    kernel.launch_backward(
        *(q, k, v, out, lse.contiguous(), readable(grad), grad_of_lse, dq, dk, dv),
        *(request.scale, values, request.is_bshd, stream, allocate),
    )
    return dq, dk, dv
