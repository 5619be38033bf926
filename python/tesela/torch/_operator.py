# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The operators ``tesela::attention`` and ``tesela::attention_into`` of PyTorch's dispatcher.

What a variant is must survive torch.compile, torch.export and another process, so the operators
take its text. What may change from call to call (numbers, captured tensors) are arguments beside
it, under their parameters' names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from tesela._errors import UnsupportedError
from tesela._variant import as_variant
from tesela.torch._launch import check_tensors, launch, new_lse, new_output, why_no_kernel

_VARIANT = "str variant, str[] number_names, Scalar[] numbers, str[] tensor_names, Tensor[] tensors"
_REST = "float? scale, bool is_bshd, bool return_lse"

# Their functions have no type hints.
_torch_library: Any = torch.library
_forward_ad: Any = torch.autograd.forward_ad

LIBRARY = _torch_library.Library("tesela", "DEF")
# A launch needs the strides that it was traced with: the last one 1, the others aligned.
_tags = (torch.Tag.pt2_compliant_tag, getattr(torch.Tag, "needs_exact_strides", None))
for _schema in (
    # Without return_lse the second result is empty.
    f"attention(Tensor q, Tensor k, Tensor v, {_VARIANT}, {_REST}) -> (Tensor, Tensor)",
    # The logarithms alone.
    f"attention_into(Tensor q, Tensor k, Tensor v, Tensor(a!) out, {_VARIANT}, {_REST}) -> Tensor",
):
    LIBRARY.define(_schema, tags=tuple(tag for tag in _tags if tag is not None))

ATTENTION = torch.ops.tesela.attention.default
ATTENTION_INTO = torch.ops.tesela.attention_into.default


def _given(
    number_names: Sequence[str],
    numbers: Sequence[Any],
    tensor_names: Sequence[str],
    tensors: Sequence[Tensor],
) -> Mapping[str, Any]:
    return dict(
        zip((*number_names, *tensor_names), (*numbers, *tensors), strict=True),
    )


def _attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    variant: str,
    number_names: Sequence[str],
    numbers: Sequence[Any],
    tensor_names: Sequence[str],
    tensors: Sequence[Tensor],
    scale: float | None,
    is_bshd: bool,
    return_lse: bool,
) -> tuple[Tensor, Tensor]:
    given = _given(number_names, numbers, tensor_names, tensors)
    out, lse = launch(q, k, v, as_variant(variant), scale, return_lse, is_bshd, None, given)
    return out, q.new_empty(0, dtype=torch.float32) if lse is None else lse


def _attention_into(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    variant: str,
    number_names: Sequence[str],
    numbers: Sequence[Any],
    tensor_names: Sequence[str],
    tensors: Sequence[Tensor],
    scale: float | None,
    is_bshd: bool,
    return_lse: bool,
) -> Tensor:
    given = _given(number_names, numbers, tensor_names, tensors)
    _, lse = launch(q, k, v, as_variant(variant), scale, return_lse, is_bshd, out, given)
    return q.new_empty(0, dtype=torch.float32) if lse is None else lse


def _fake_lse(q: Tensor, is_bshd: bool, return_lse: bool) -> Tensor:
    return new_lse(q, is_bshd) if return_lse else q.new_empty(0, dtype=torch.float32)


def _check(q: Tensor, k: Tensor, v: Tensor) -> None:
    """What can be said of tensors without their memory; the launch checks the rest."""
    check_tensors(q, k, v)
    reason = why_no_kernel(q)
    if reason is not None and not q.is_meta:  # a meta tensor stands for one of any device
        raise UnsupportedError(reason)


def _fake_attention(q: Tensor, k: Tensor, v: Tensor, *arguments: Any) -> tuple[Tensor, Tensor]:
    _check(q, k, v)
    is_bshd, return_lse = arguments[-2:]
    return new_output(q, v.shape[3]), _fake_lse(q, is_bshd, return_lse)


def _fake_attention_into(q: Tensor, k: Tensor, v: Tensor, out: Tensor, *arguments: Any) -> Tensor:
    _check(q, k, v)
    is_bshd, return_lse = arguments[-2:]
    return _fake_lse(q, is_bshd, return_lse)


def _wants_gradient(value: Any) -> bool:
    if not isinstance(value, Tensor):
        return False
    if value.requires_grad and torch.is_grad_enabled():
        return True
    return _forward_ad._current_level >= 0 and _forward_ad.unpack_dual(value).tangent is not None


def why_no_gradients(values: Iterable[Any]) -> str | None:
    """A sentence where a gradient of one of them would be asked for."""
    for value in values:
        if _wants_gradient(value):
            return (
                "an argument of tesela.attention requires gradients, and Tesela has none for "
                "PyTorch yet: call it under torch.no_grad() or torch.inference_mode(), or detach "
                "the argument"
            )
    return None


def refuse_gradients(values: Iterable[Any]) -> None:
    """Raises UnsupportedError where a gradient of one of them would be asked for."""
    reason = why_no_gradients(values)
    if reason is not None:
        raise UnsupportedError(reason)


# The argument that is the list of captured tensors, seen from the end.
_TENSORS = -4


def _without_gradients(operator: Any) -> Any:
    """The rule of the key Autograd: a gradient is refused, and then nothing of autograd is left."""

    def rule(keys: Any, *arguments: Any) -> Any:
        refuse_gradients(
            [*(each for each in arguments if isinstance(each, Tensor)), *arguments[_TENSORS]]
        )
        return operator.redispatch(keys & torch._C._after_autograd_keyset, *arguments)

    return rule


def autocast(device: str, tensors: Iterable[Tensor]) -> list[Tensor]:
    """The tensors in the type of autocast, as for PyTorch's attention: float64 stays."""
    dtype = torch.get_autocast_dtype(device)
    return [
        tensor.to(dtype)
        if tensor.is_floating_point() and tensor.dtype is not torch.float64
        else tensor
        for tensor in tensors
    ]


def _with_autocast(operator: Any, device: str, key: Any) -> Any:
    """The rule of autocast: q, k and v in its type, captured tensors as they are."""

    def rule(keys: Any, q: Tensor, k: Tensor, v: Tensor, *arguments: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(key)):
            return operator(*autocast(device, (q, k, v)), *arguments)

    return rule


for _device in ("CPU", "CUDA"):
    LIBRARY.impl("attention", _attention, _device)
    LIBRARY.impl("attention_into", _attention_into, _device)
    for _operator in (ATTENTION, ATTENTION_INTO):
        _key = "Autocast" + _device
        LIBRARY.impl(
            _operator,
            _with_autocast(_operator, _device.lower(), getattr(torch._C.DispatchKey, _key)),
            _key,
            with_keyset=True,
        )
for _operator in (ATTENTION, ATTENTION_INTO):
    LIBRARY.impl(_operator, _without_gradients(_operator), "Autograd", with_keyset=True)
_torch_library.register_fake(ATTENTION, _fake_attention, lib=LIBRARY)
_torch_library.register_fake(ATTENTION_INTO, _fake_attention_into, lib=LIBRARY)
