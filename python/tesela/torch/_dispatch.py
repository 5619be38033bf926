# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tesela.attention`` of PyTorch's tensors: by the binding at once, or by the operator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from tesela._variant import Variant
from tesela.torch._gradients import Function, given_gradient, gradients_for, trained
from tesela.torch._launch import check_tensors, launch
from tesela.torch._launch_backward import launch_backward
from tesela.torch._launch_parameters import launch_parameters
from tesela.torch._operator import (
    ATTENTION,
    ATTENTION_BACKWARD,
    ATTENTION_BACKWARD_PARAMETERS,
    ATTENTION_INTO,
    autocast,
)

_PLAIN = frozenset((Tensor, torch.nn.Parameter))

_is_compiling = torch.compiler.is_compiling
_is_grad_enabled = torch.is_grad_enabled
_any_requires_grad: Any = torch._C._any_requires_grad
_is_profiling = torch._C._autograd._profiler_enabled
_is_autocasting = torch._C._is_any_autocast_enabled
_function_modes = torch._C._len_torch_function_stack
_dispatch_modes = torch._C._len_torch_dispatch_stack
_transform = torch._C._functorch.maybe_current_level
_jit_trace = torch._C._get_tracing_state
_forward_ad: Any = torch.autograd.forward_ad


def _is_observed() -> bool:
    """Whether more than a launch is to happen: a profile, a trace, a mode, a transform."""
    return (
        _is_profiling()
        or _function_modes() != 0
        or _dispatch_modes() != 0
        or _transform() is not None
        or _jit_trace() is not None
        or _forward_ad._current_level >= 0
    )


def _are_plain(values: Iterable[Any]) -> bool:
    """Whether the tensors among them are PyTorch's own, without a pending negation."""
    for value in values:
        if isinstance(value, Tensor) and (type(value) not in _PLAIN or value.is_neg()):
            return False
    return True


def _is_static(value: float) -> bool:
    # The module brings SymPy with it: importing it above made a first call 0.6 s longer.
    from torch.fx.experimental.symbolic_shapes import has_static_value

    return has_static_value(value)


def _for_operator(variant: Variant, parameters: Mapping[str, Any]) -> tuple[Any, ...]:
    """The variant as operators take it: its text, and the names and values of parameters."""
    number_names, numbers, tensor_names, tensors = [], [], [], []
    for name, value in {**variant.bound, **parameters}.items():
        if isinstance(value, Tensor):
            tensor_names.append(name)
            tensors.append(value)
        elif isinstance(value, float) and _is_compiling() and not _is_static(value):
            # A graph would be compiled for its present value. In a tensor it stays an argument.
            tensor_names.append(name)
            tensors.append(torch.ones((), dtype=torch.float64) * value)
        elif value is not None:
            number_names.append(name)
            numbers.append(value)
    return variant._program.line, number_names, numbers, tensor_names, tensors


def _by_operator(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    variant: Variant,
    scale: float | None,
    return_lse: bool,
    is_bshd: bool,
    out: Tensor | None,
    parameters: Mapping[str, Any],
) -> Any:
    if not _is_compiling():  # there the operator says so
        check_tensors(q, k, v)
    given = _for_operator(variant, parameters)
    if out is not None:
        lse = ATTENTION_INTO(q, k, v, out, *given, scale, is_bshd, return_lse)
        return (out, lse) if return_lse else out
    result, lse = ATTENTION(q, k, v, *given, scale, is_bshd, return_lse)
    return (result, lse) if return_lse else result


class _Eager(Function):
    """Attention whose gradients are asked for, as the operator's rule, without the dispatcher."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        variant: Variant,
        scale: float | None,
        is_bshd: bool,
        parameters: Mapping[str, Any],
        names: list[str],
        *_: Tensor,
    ) -> Any:
        given = {**variant.bound, **parameters}
        numbers = {name: given[name].item() for name in names if given[name].dim() == 0}
        values = {**parameters, **numbers} if numbers else parameters
        out, lse = launch(q, k, v, variant, scale, True, is_bshd, None, values)
        ctx.tensors = [name for name, value in given.items() if isinstance(value, Tensor)]
        ctx.numbers = {name: value for name, value in given.items() if name not in ctx.tensors}
        ctx.save_for_backward(q, k, v, out, lse, *(given[name] for name in ctx.tensors))
        ctx.set_materialize_grads(False)
        ctx.variant, ctx.options, ctx.names = variant, (scale, is_bshd), names
        return out, lse

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, grad_of_lse: Tensor | None) -> Any:
        if grad is None and grad_of_lse is None:
            return gradients_for(ctx, None, 0)
        q, k, v, out, lse, *tensors = ctx.saved_tensors
        dense = (given_gradient(grad, out), q, k, v, out, lse, grad_of_lse)
        parameters = {**ctx.numbers, **dict(zip(ctx.tensors, tensors, strict=True))}
        if (
            _is_compiling()
            or _is_observed()
            or _is_grad_enabled()  # gradients of gradients are to be refused
            or not _are_plain((*dense, *tensors))
        ):
            given = (*dense, *_for_operator(ctx.variant, parameters), *ctx.options)
            backward, of_names = ATTENTION_BACKWARD, ATTENTION_BACKWARD_PARAMETERS
        else:
            given = (*dense, ctx.variant, *ctx.options, parameters)
            backward, of_names = launch_backward, launch_parameters
        gradients = backward(*given) if any(ctx.needs_input_grad[:3]) else None
        of_parameters = of_names(*given, ctx.names) if ctx.names else ()
        return gradients_for(ctx, gradients, 0, of_parameters)


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    variant: Variant,
    scale: float | None,
    return_lse: bool,
    is_bshd: bool,
    out: Tensor | None,
    parameters: Mapping[str, Any],
) -> Any:
    """What :func:`tesela.attention` calls; see there.

    The dispatcher costs as much as a launch. So an eager call goes around it where nothing would
    come of it: no profile, trace, mode, transform or subclass. What the keys of autograd and
    autocast do is done here.
    """
    if (
        _is_compiling()
        or _is_observed()
        or type(q) not in _PLAIN
        or type(k) not in _PLAIN
        or type(v) not in _PLAIN
        or q.is_neg()
        or k.is_neg()
        or v.is_neg()
        or (variant.bound and not _are_plain(variant.bound.values()))
        or (parameters and not _are_plain(parameters.values()))
    ):
        return _by_operator(q, k, v, variant, scale, return_lse, is_bshd, out, parameters)
    is_differentiated = _is_grad_enabled() and _any_requires_grad(q, k, v, out)
    names: list[str] = []
    if (
        (variant.bound or parameters)
        and _is_grad_enabled()
        and _any_requires_grad(*variant.bound.values(), *parameters.values())
    ):
        names = trained(variant, {**variant.bound, **parameters})
        is_differentiated = True
    if is_differentiated and out is not None:  # it says why not
        return _by_operator(q, k, v, variant, scale, return_lse, is_bshd, out, parameters)
    if _is_autocasting() and torch.is_autocast_enabled(q.device.type):
        q, k, v = autocast(q.device.type, (q, k, v))
    if is_differentiated:
        given = {**variant.bound, **parameters} if names else {}
        of_names = (given[name] for name in names)
        result, lse = _Eager.apply(q, k, v, variant, scale, is_bshd, parameters, names, *of_names)
    else:
        result, lse = launch(q, k, v, variant, scale, return_lse, is_bshd, out, parameters)
    return (result, lse) if return_lse else result
