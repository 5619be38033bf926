# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The operators in PyTorch's dispatcher: attention, attention_into, and those of gradients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from tesela._errors import UnsupportedError
from tesela.torch._launch import check_tensors, launch, new_lse, new_output, why_no_kernel
from tesela.torch._launch_backward import launch_backward, new_gradients
from tesela.torch._launch_parameters import launch_parameters
from tesela.torch._request import SCHEMA, from_operator

_REST = f"{SCHEMA}, bool return_lse"

_torch_library: Any = torch.library  # its functions have no type hints

LIBRARY = _torch_library.Library("tesela", "DEF")
# A launch needs strides as they were traced: the last one is 1, the others are aligned.
_tags = (torch.Tag.pt2_compliant_tag, getattr(torch.Tag, "needs_exact_strides", None))
for _schema in (
    # Without return_lse the second result is empty.
    f"attention(Tensor q, Tensor k, Tensor v, {_REST}) -> (Tensor, Tensor)",
    # The result: the logarithms.
    f"attention_into(Tensor q, Tensor k, Tensor v, Tensor(a!) out, {_REST}) -> Tensor",
    # The gradients of q, k and v, from those of the result and of the logarithms.
    "attention_backward(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, "
    f"Tensor? grad_of_lse, {SCHEMA}) -> (Tensor, Tensor, Tensor)",
    # The gradients of some of the parameters that are tensors.
    "attention_backward_parameters(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor out, "
    f"Tensor lse, Tensor? grad_of_lse, {SCHEMA}, str[] names) -> Tensor[]",
):
    LIBRARY.define(_schema, tags=tuple(tag for tag in _tags if tag is not None))

ATTENTION = torch.ops.tesela.attention.default
ATTENTION_INTO = torch.ops.tesela.attention_into.default
ATTENTION_BACKWARD = torch.ops.tesela.attention_backward.default
ATTENTION_BACKWARD_PARAMETERS = torch.ops.tesela.attention_backward_parameters.default


def _or_empty(lse: Tensor | None, q: Tensor) -> Tensor:
    return q.new_empty(0, dtype=torch.float32) if lse is None else lse


def attention(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    *request, return_lse = rest
    out, lse = launch(q, k, v, from_operator(*request), return_lse, None)
    return out, _or_empty(lse, q)


def attention_into(q: Tensor, k: Tensor, v: Tensor, out: Tensor, *rest: Any) -> Tensor:
    *request, return_lse = rest
    _, lse = launch(q, k, v, from_operator(*request), return_lse, out)
    return _or_empty(lse, q)


def attention_backward(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    dense, request = arguments[:7], arguments[7:]
    return launch_backward(*(*dense, from_operator(*request)))


def attention_backward_parameters(*arguments: Any) -> list[Tensor]:
    dense, request, names = arguments[:7], arguments[7:-1], arguments[-1]
    return launch_parameters(*(*dense, from_operator(*request), names))


def _fake_lse(q: Tensor, is_bshd: bool, return_lse: bool) -> Tensor:
    return _or_empty(new_lse(q, is_bshd) if return_lse else None, q)


def _check(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Checks what is known without the tensors' memory. The launch checks the rest."""
    check_tensors(q, k, v)
    reason = why_no_kernel(q)
    if reason is not None and not q.is_meta:  # a meta tensor may stand for any device
        raise UnsupportedError(reason)


def _fake_attention(q: Tensor, k: Tensor, v: Tensor, *arguments: Any) -> tuple[Tensor, Tensor]:
    _check(q, k, v)
    is_bshd, return_lse = arguments[-2:]
    return new_output(q, v.shape[3]), _fake_lse(q, is_bshd, return_lse)


def _fake_attention_into(q: Tensor, k: Tensor, v: Tensor, out: Tensor, *arguments: Any) -> Tensor:
    _check(q, k, v)
    is_bshd, return_lse = arguments[-2:]
    return _fake_lse(q, is_bshd, return_lse)


def _fake_attention_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, *arguments: Any
) -> tuple[Tensor, Tensor, Tensor]:
    _check(q, k, v)
    return new_gradients(q, k, v)


def _fake_attention_backward_parameters(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, *arguments: Any
) -> list[Tensor]:
    _check(q, k, v)
    *_, tensor_names, tensors, _, _, names = arguments
    given = dict(zip(tensor_names, tensors, strict=True))
    # Contiguous, whatever the parameter's strides are.
    return [given[name].new_empty(given[name].shape) for name in names]


def autocast(device: str, tensors: Iterable[Tensor]) -> list[Tensor]:
    """The tensors in autocast's type, as for PyTorch's attention; float64 does not change."""
    dtype = torch.get_autocast_dtype(device)
    return [
        tensor.to(dtype)
        if tensor.dtype is not dtype  # even a conversion that changes nothing takes a microsecond
        and tensor.is_floating_point()
        and tensor.dtype is not torch.float64
        else tensor
        for tensor in tensors
    ]


def _with_autocast(operator: Any, device: str, key: Any) -> Any:
    """The rule of autocast: q, k and v get its type, captured tensors do not change."""

    def rule(keys: Any, q: Tensor, k: Tensor, v: Tensor, *arguments: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(key)):
            return operator(*autocast(device, (q, k, v)), *arguments)

    return rule


for _device in ("CPU", "CUDA"):
    LIBRARY.impl("attention", attention, _device)
    LIBRARY.impl("attention_into", attention_into, _device)
    LIBRARY.impl("attention_backward", attention_backward, _device)
    LIBRARY.impl("attention_backward_parameters", attention_backward_parameters, _device)
    for _operator in (ATTENTION, ATTENTION_INTO):
        _key = "Autocast" + _device
        LIBRARY.impl(
            _operator,
            _with_autocast(_operator, _device.lower(), getattr(torch._C.DispatchKey, _key)),
            _key,
            with_keyset=True,
        )
_torch_library.register_fake(ATTENTION, _fake_attention, lib=LIBRARY)
_torch_library.register_fake(ATTENTION_INTO, _fake_attention_into, lib=LIBRARY)
_torch_library.register_fake(ATTENTION_BACKWARD, _fake_attention_backward, lib=LIBRARY)
_torch_library.register_fake(
    ATTENTION_BACKWARD_PARAMETERS, _fake_attention_backward_parameters, lib=LIBRARY
)
