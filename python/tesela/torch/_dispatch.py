# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tesela.attention`` for PyTorch's tensors, by the binding directly or by an operator.

PyTorch's dispatcher takes as long as a launch. So an eager call skips it if it would do nothing: no
profile, trace, mode, transform or subclass is active. The binding checks this
(python/src/Besides.cpp). This module does what the dispatcher's keys of autograd and autocast would
do.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from tesela._variant import Variant, as_variant
from tesela.torch._gradients import Function, gradients_by, gradients_for, keep, kept, trained
from tesela.torch._launch import EAGER, check_tensors, launch
from tesela.torch._launch_backward import begin_gradients, launch_backward
from tesela.torch._launch_parameters import launch_parameters
from tesela.torch._numbers import number
from tesela.torch._operator import (
    ATTENTION,
    ATTENTION_BACKWARD,
    ATTENTION_BACKWARD_PARAMETERS,
    ATTENTION_INTO,
    autocast,
)
from tesela.torch._request import Request, from_operator, tensors_of_operator, to_operator

_attend = EAGER.attend
_needs_dispatcher = EAGER.needs_dispatcher

# torch.compile replaces both by True while it traces. The second is also true in torch.export
# without torch.compile, and takes twice as long.
_is_traced = torch.compiler.is_dynamo_compiling
_is_compiling = torch.compiler.is_compiling
_is_autocasting = torch._C._is_any_autocast_enabled
_is_grad_enabled = torch.is_grad_enabled
_any_requires_grad: Any = torch._C._any_requires_grad


def _by_operator(
    q: Tensor, k: Tensor, v: Tensor, request: Request, return_lse: bool, out: Tensor | None
) -> Any:
    if not _is_compiling():  # when compiling, the operator checks
        check_tensors(q, k, v)
    given = to_operator(request)
    if out is not None:
        lse = ATTENTION_INTO(q, k, v, out, *given, return_lse)
        return (out, lse) if return_lse else out
    result, lse = ATTENTION(q, k, v, *given, return_lse)
    return (result, lse) if return_lse else result


class _Eager(Function):
    """Attention with gradients, like the operator's autograd rule, without the dispatcher."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        request: Request,
        names: list[str],
        *of_names: Tensor,
    ) -> Any:
        numbers = {
            name: value.item()
            for name, value in zip(names, of_names, strict=True)
            if value.dim() == 0
        }
        plain = request
        if numbers:
            plain = request._replace(parameters={**request.parameters, **numbers})
        results = launch(q, k, v, plain, True, None)
        keep(ctx, (q, k, v, *results), to_operator(request), names)
        return results

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, grad_of_lse: Tensor | None) -> Any:
        if grad is None and grad_of_lse is None:
            return gradients_for(ctx, None, 0)
        dense, request = kept(ctx, grad, grad_of_lse)
        if (
            _is_compiling()
            or _is_grad_enabled()  # the operator refuses gradients of gradients
            or _needs_dispatcher(*dense, *tensors_of_operator(request).values())
        ):
            given = (*dense, *request)
            return gradients_by(ctx, ATTENTION_BACKWARD, ATTENTION_BACKWARD_PARAMETERS, given, 0)
        given = (*dense, from_operator(*request))
        return gradients_by(ctx, launch_backward, launch_parameters, given, 0)


def _by_rules(
    q: Tensor, k: Tensor, v: Tensor, request: Request, return_lse: bool, out: Tensor | None
) -> Any:
    """A call that needs what the dispatcher's keys of autograd and autocast do."""
    is_differentiated = _is_grad_enabled() and _any_requires_grad(q, k, v, out)
    names: list[str] = []
    if _is_grad_enabled() and _any_requires_grad(*request.given.values()):
        names = trained(request.variant, request.given)
        is_differentiated = True
    if is_differentiated and out is not None:  # the operator raises the error
        return _by_operator(q, k, v, request, return_lse, out)
    if _is_autocasting() and torch.is_autocast_enabled(q.device.type):
        q, k, v = autocast(q.device.type, (q, k, v))
    if is_differentiated:
        begin_gradients(q, k, v, request, names)
        of_names = (request.given[name] for name in names)
        result, lse = _Eager.apply(q, k, v, request, names, *of_names)
    else:
        result, lse = launch(q, k, v, request, return_lse, out)
    return (result, lse) if return_lse else result


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    variant: Variant | str | os.PathLike[str],
    scale: float | None,
    return_lse: bool,
    is_bshd: bool,
    out: Tensor | None,
    parameters: Mapping[str, Any],
) -> Any:
    """The implementation of :func:`tesela.attention`."""
    if scale is not None:
        scale = number("scale", scale)
    compute = _by_operator
    if not _is_traced():
        result = _attend(q, k, v, variant, scale, return_lse, is_bshd, out, parameters)
        if result is False:
            compute = _by_rules
        elif result is not None:
            return result
    request = Request(as_variant(variant), parameters, scale, is_bshd)
    return compute(q, k, v, request, return_lse, out)
