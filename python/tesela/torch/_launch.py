# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A launch on plain tensors, with PyTorch's allocator and its current stream."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from tesela import _native
from tesela._errors import InvalidArgumentError, UnsupportedError
from tesela._variant import Variant, as_variant, known_variants
from tesela.torch._request import Request

_CUDA_TYPES: Final = {torch.bfloat16: _native.BF16, torch.float16: _native.F16}
_HOST_TYPES: Final = {**_CUDA_TYPES, torch.float32: _native.F32}


def _empty_on(
    shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype, device: int
) -> Tensor:
    return torch.empty_strided(shape, strides, dtype=dtype, device=torch.device("cuda", device))


def _empty_on_current(
    shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype
) -> Tensor:
    return torch.empty_strided(shape, strides, dtype=dtype, device="cuda")


def _empty_on_host(shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    return torch.empty_strided(shape, strides, dtype=dtype, device="cpu")


def new_workspace(count: int, device: int) -> Tensor:
    """Device memory that a launch needs besides its tensors."""
    return torch.empty(count, dtype=torch.uint8, device=torch.device("cuda", device))


def _was_written(tensor: Tensor) -> None:
    if not tensor.is_inference():
        torch.autograd.graph.increment_version(tensor)


def make_eager(quick: Any) -> _native.Eager:
    """``quick``: a module with functions that allocate like the three above, or None."""
    allocated = {**_HOST_TYPES, torch.bool: _native.BOOL}  # bool is for workspaces, in bytes
    types: list[torch.dtype | None] = [None] * (1 + max(allocated.values()))
    for dtype, number in allocated.items():
        types[number] = dtype
    return _native.Eager(
        element_types=tuple(types),
        empty_host=getattr(quick, "_empty_strided_cpu", _empty_on_host),
        empty_cuda=getattr(quick, "_empty_strided_cuda", _empty_on_current),
        # Missing if PyTorch is built without CUDA.
        current_device=getattr(torch._C, "_cuda_getDevice", None),
        empty_on=_empty_on,
        written=_was_written,
        tensor_types=(Tensor, torch.nn.Parameter),
        is_pending=Tensor.is_neg,  # a negation that is not yet applied to the memory
        observers=(
            torch._C._autograd._profiler_enabled,
            torch._C._len_torch_function_stack,
            torch._C._len_torch_dispatch_stack,
            torch._C._functorch.maybe_current_level,
            torch._C._get_tracing_state,
        ),
        forward_mode=torch.autograd.forward_ad,
        is_grad_enabled=torch.is_grad_enabled,
        is_autocasting=torch._C._is_any_autocast_enabled,
        variant_type=Variant,
        variants=known_variants,
        as_variant=as_variant,
    )


# The allocation functions of code that torch.compile generates. They skip the dispatcher and take
# half of the time.
QUICK: Final[Any] = getattr(torch._C._dynamo, "guards", None)
EAGER: Final = make_eager(QUICK)
_launch = EAGER.launch


def why_no_kernel(q: Tensor, name: str = "q") -> str | None:
    """A message if there are no kernels for q's element type and device, otherwise None."""
    names = "q, k and v" if name == "q" else name
    if not (q.is_cuda or q.is_cpu):
        return (
            f"{name} is on the device '{q.device}'; Tesela computes on 'cpu' and 'cuda': move "
            f"{names}"
        )
    if q.dtype in (_CUDA_TYPES if q.is_cuda else _HOST_TYPES):
        return None
    if q.dtype is torch.float32:
        return (
            f"{name}'s elements are torch.float32, which only the CPU computes; on CUDA they must "
            f"be torch.bfloat16 or torch.float16: convert {names}, or use torch.autocast"
        )
    return (
        f"{name}'s elements are {q.dtype}, they must be torch.bfloat16 or torch.float16, on the "
        f"CPU also torch.float32: convert {names}"
    )


def check_tensors(q: Any, k: Any, v: Any) -> None:
    """Raises InvalidArgumentError unless all three are tensors with four axes."""
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


def _other_type(q: Tensor, k: Tensor, v: Tensor) -> str | None:
    """A message if k or v has other elements than q, otherwise None."""
    for name, tensor in (("k", k), ("v", v)):
        if tensor.dtype != q.dtype:
            return (
                f"{name}'s elements are {tensor.dtype}, q's are {q.dtype}: convert {name}, so that "
                "q, k and v have one type"
            )
    return None


def new_output(q: Tensor, head_dim_v: int) -> Tensor:
    """A tensor for the result without gaps. Its axes have the order of q's axes in memory."""
    first, second, third, _ = q.shape
    if q.stride(1) < q.stride(2):
        return q.new_empty((first, third, second, head_dim_v)).transpose(1, 2)
    return q.new_empty((first, second, third, head_dim_v))


def new_lse(q: Tensor, is_bshd: bool) -> Tensor:
    """A tensor for the logarithms, [B, H, Sq] in float32."""
    first, second, third, _ = q.shape
    shape = (first, third, second) if is_bshd else (first, second, third)
    return q.new_empty(shape, dtype=torch.float32)


def launch(
    q: Tensor, k: Tensor, v: Tensor, request: Request, return_lse: bool, out: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Computes attention through the binding, on the current stream of q's device.

    All tensors must be plain: PyTorch's dispatcher has nothing left to do for them.
    """
    variant, parameters, scale, is_bshd = request
    results = _launch(q, k, v, variant, scale, return_lse, is_bshd, out, parameters)
    if results is None:
        check_tensors(q, k, v)
        raise UnsupportedError(
            why_no_kernel(q)
            or _other_type(q, k, v)
            or "q, k and v must be dense tensors: convert them"
        )
    return results
