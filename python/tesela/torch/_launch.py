# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A launch over plain tensors: PyTorch's allocator for outputs, its current stream, the binding."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch import Tensor

from tesela import _native
from tesela._errors import InvalidArgumentError, UnsupportedError
from tesela._variant import Variant

_CUDA_TYPES: Final = {torch.bfloat16: _native.BF16, torch.float16: _native.F16}
_HOST_TYPES: Final = {**_CUDA_TYPES, torch.float32: _native.F32}

_allocators: dict[int, Callable[[int], Tensor]] = {}
"""By CUDA device: device memory that a launch needs besides its tensors."""


def why_no_kernel(q: Tensor) -> str | None:
    """A sentence where there are no kernels for q's element type and device."""
    if not (q.is_cuda or q.is_cpu):
        return (
            f"q is on the device '{q.device}'; Tesela computes on 'cpu' and 'cuda': move q, k and v"
        )
    if q.dtype in (_CUDA_TYPES if q.is_cuda else _HOST_TYPES):
        return None
    if q.dtype is torch.float32:
        return (
            "q's elements are torch.float32, which only the CPU computes; on CUDA they must be "
            "torch.bfloat16 or torch.float16: convert q, k and v, or use torch.autocast"
        )
    return (
        f"q's elements are {q.dtype}, they must be torch.bfloat16 or torch.float16, on the CPU "
        "also torch.float32: convert q, k and v"
    )


def check_tensors(q: Any, k: Any, v: Any) -> None:
    """Raises InvalidArgumentError where one of them is no tensor of four axes."""
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if not isinstance(tensor, Tensor):
            raise InvalidArgumentError(
                f"{name} is of the type {type(tensor)}, but q is a torch.Tensor: pass a tensor"
            )
        if tensor.dim() != 4:
            raise InvalidArgumentError(
                f"{name} has the shape {tuple(tensor.shape)}, it must have four axes: [batch, "
                "heads, length, head dimension], or the order that layout names"
            )


def new_output(q: Tensor, head_dim_v: int) -> Tensor:
    """A tensor for the result: q's first three axes in q's order in memory, without gaps."""
    first, second, third, _ = q.shape
    if q.stride(1) < q.stride(2):
        return q.new_empty((first, third, second, head_dim_v)).transpose(1, 2)
    return q.new_empty((first, second, third, head_dim_v))


def new_lse(q: Tensor, is_bshd: bool) -> Tensor:
    """A tensor for the logarithms, [B, H, Sq] in float32."""
    first, second, third, _ = q.shape
    shape = (first, third, second) if is_bshd else (first, second, third)
    return q.new_empty(shape, dtype=torch.float32)


def _allocator(device: int) -> Callable[[int], Tensor]:
    place = torch.device("cuda", device)

    def allocate(count: int) -> Tensor:
        return torch.empty(count, dtype=torch.uint8, device=place)

    return _allocators.setdefault(device, allocate)


def _with_numbers(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Tensors without axes as numbers; to read one waits for its device."""
    return tuple(
        value.item() if isinstance(value, Tensor) and value.dim() == 0 else value
        for value in values
    )


def launch(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    variant: Variant,
    scale: float | None,
    return_lse: bool,
    is_bshd: bool,
    out: Tensor | None,
    parameters: Mapping[str, Any],
) -> tuple[Tensor, Tensor | None]:
    """Computes attention by the binding, now, on the current stream of q's device.

    Every tensor is a plain one: what PyTorch's dispatcher does besides has been done.
    """
    device, is_cuda = q.get_device(), q.is_cuda
    kind = (_CUDA_TYPES if is_cuda else _HOST_TYPES).get(q.dtype)
    if kind is None or not (is_cuda or q.is_cpu):
        raise UnsupportedError(why_no_kernel(q) or "")
    if q.dim() != 4 or v.dim() != 4:
        check_tensors(q, k, v)
    head_dim_qk, head_dim_v = q.shape[3], v.shape[3]
    values, constants = variant._arguments(parameters)
    for value in values:
        if isinstance(value, Tensor) and value.dim() == 0:
            values = _with_numbers(values)
            break
    kernel = variant._kernel(kind, head_dim_qk, head_dim_v, device, constants)
    if out is not None:
        if not out.is_inference():
            torch.autograd.graph.increment_version(out)
    elif head_dim_v == head_dim_qk and q.is_contiguous():
        out = torch.empty_like(q)
    else:
        out = new_output(q, head_dim_v)
    lse = new_lse(q, is_bshd) if return_lse else None
    if not is_cuda:
        kernel.launch(q, k, v, out, lse, scale, values, is_bshd, 0, None)
    else:
        stream = torch._C._cuda_getCurrentRawStream(device)
        allocate = _allocators.get(device) or _allocator(device)
        kernel.launch(q, k, v, out, lse, scale, values, is_bshd, stream, allocate)
    return out, lse
