# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The rules of PyTorch's autograd: gradients by ``tesela::attention_backward`` and ``_parameters``.

The result and the logarithms have gradients with respect to q, k, v and parameters that are
tensors. Forward mode and gradients of gradients are refused with a message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch._functorch import autograd_function
from torch.autograd.function import _SingleLevelFunction

from tesela._errors import UnsupportedError
from tesela._variant import Variant, as_variant
from tesela.torch._launch import EAGER
from tesela.torch._operator import (
    ATTENTION,
    ATTENTION_BACKWARD,
    ATTENTION_BACKWARD_PARAMETERS,
    ATTENTION_INTO,
    LIBRARY,
    attention,
    attention_backward,
    attention_backward_parameters,
)
from tesela.torch._request import tensors_of_operator

_needs_dispatcher = EAGER.needs_dispatcher
_is_compiling = torch.compiler.is_compiling
_is_legacy_batch: Any = torch._C._functorch.is_legacy_batchedtensor  # of is_grads_batched
_forward_ad: Any = torch.autograd.forward_ad
_single_level: Any = autograd_function.enable_single_level_autograd_function  # type: ignore[attr-defined]

_FORWARD_MODE = (
    "an argument of tesela.attention has a tangent of forward-mode differentiation, which Tesela "
    "does not compute: differentiate with backward(), torch.autograd.grad or torch.func.grad"
)
_OUT = (
    "out is given to tesela.attention and an argument requires a gradient, but PyTorch "
    "differentiates only what an operator returns: omit out, or call it under torch.no_grad()"
)
_BATCHED = (
    "torch.autograd.grad is called with is_grads_batched=True, which the gradients of "
    "tesela.attention do not support: use torch.vmap of the function that torch.func.vjp returns, "
    "or call torch.autograd.grad once for each gradient"
)
_TRAINED_TYPES = ("f32", "f16", "bf16")
_SECOND = (
    "the gradients of tesela.attention have no gradients of their own (double backward): call "
    "backward() or torch.autograd.grad without create_graph=True, or compute this attention with "
    "PyTorch's operations"
)


def requires_grad(value: Any) -> bool:
    """Whether it is a tensor for which backward() would compute a gradient."""
    return isinstance(value, Tensor) and value.requires_grad and torch.is_grad_enabled()


def has_tangent(value: Any) -> bool:
    """Whether it is a tensor with a tangent of forward-mode differentiation."""
    return (
        _forward_ad._current_level >= 0
        and isinstance(value, Tensor)
        and _forward_ad.unpack_dual(value).tangent is not None
    )


def why_no_gradients(dense: Sequence[Tensor], parameters: Mapping[str, Any]) -> str | None:
    """A message if a gradient is asked for that does not exist, otherwise None.

    Args:
        dense: q, k and v.
        parameters: the parameters by name.
    """
    if any(map(has_tangent, (*dense, *parameters.values()))):
        return _FORWARD_MODE
    return None


def trained(variant: Variant, parameters: Mapping[str, Any]) -> list[str]:
    """The names of the parameters whose gradients are asked for.

    Args:
        variant: the variant with the parameters.
        parameters: all values by name.

    Raises:
        UnsupportedError: such a parameter has no gradient.
    """
    names = [name for name, value in parameters.items() if requires_grad(value)]
    declared = {each.name: each for each in variant.parameters} if names else {}
    for name in names:
        parameter = declared.get(name)
        if parameter is None:
            continue  # the launch reports an unknown name
        if parameter.constant or parameter.type not in _TRAINED_TYPES:
            kind = "a compile-time constant" if parameter.constant else f"a {parameter.type}"
            raise UnsupportedError(
                f"the value of the parameter '{name}' requires a gradient, and the variant "
                f"declares it {kind}, which has none: pass it detached, as {name}.detach()"
            )
    return names


_OneLevel: Any = _SingleLevelFunction
_AllLevels: Any = torch.autograd.Function


class Function(_OneLevel):  # type: ignore[misc]
    """A function of autograd at one of torch.func's levels, as dispatcher rules run there."""

    # torch._dynamo.compiled_autograd needs this attribute, which only torch.autograd.Function has.
    _compiled_autograd_key = staticmethod(_AllLevels._compiled_autograd_key)


def _redispatch(operator: Any, keys: Any, *arguments: Any) -> Any:
    with torch._C._AutoDispatchBelowAutograd():
        return operator.redispatch(keys & torch._C._after_autograd_keyset, *arguments)


def _redispatch_of_function(operator: Any, keys: Any, *arguments: Any) -> Any:
    """Redispatches in a function's forward. Gradients are off there; outer levels need them."""
    with torch.enable_grad(), _forward_ad._set_fwd_grad_enabled(True):
        return _redispatch(operator, keys, *arguments)


def gradients_for(
    ctx: Any, gradients: Sequence[Tensor] | None, first: int, of_parameters: Sequence[Tensor] = ()
) -> tuple[Any, ...]:
    """The result of a function's backward; q, k and v are its arguments from ``first`` on.

    The last arguments are the trained parameters.
    """
    count = len(ctx.needs_input_grad)
    needed = ctx.needs_input_grad[first : first + 3]
    wanted = [
        gradient if is_needed else None
        for gradient, is_needed in zip(gradients or (None,) * 3, needed, strict=True)
    ]
    between = count - first - 3 - len(of_parameters)
    return (*(None,) * first, *wanted, *(None,) * between, *of_parameters)


def gradients_by(
    ctx: Any, backward: Any, of_parameters: Any, given: Sequence[Any], first: int
) -> tuple[Any, ...]:
    """The result of a function's backward, computed from what ``keep`` saved.

    Args:
        ctx: as in ``keep``.
        backward: computes the gradients of q, k and v from ``given``.
        of_parameters: computes those of parameters from ``given`` and their names.
        given: the arguments for both functions.
        first: as in ``gradients_for``.
    """
    is_needed = any(ctx.needs_input_grad[first : first + 3])
    gradients = backward(*given) if is_needed else None
    return gradients_for(
        ctx, gradients, first, of_parameters(*given, ctx.names) if ctx.names else ()
    )


def keep(ctx: Any, dense: Sequence[Any], request: Sequence[Any], names: list[str]) -> None:
    """Saves what gradients need: q, k, v, the result, the logarithms, and the request.

    Args:
        ctx: the context of the function whose forward calls this.
        dense: q, k, v, the result and the logarithms.
        request: the request as operators take it.
        names: the names of the trained parameters.
    """
    *before, tensors, scale, is_bshd = request
    ctx.save_for_backward(*dense, *tensors)
    ctx.set_materialize_grads(False)
    ctx.request, ctx.names = (before, scale, is_bshd), names


def _is_batched(grad: Tensor | None) -> bool:
    return grad is not None and not _is_compiling() and _is_legacy_batch(grad)


def kept(ctx: Any, grad: Tensor | None, grad_of_lse: Tensor | None) -> tuple[Any, Any]:
    """The arguments of ``attention_backward``: the gradients, and what ``keep`` saved.

    Args:
        ctx: as in ``keep``.
        grad: the gradient of the result; None: zeros.
        grad_of_lse: the gradient of the logarithms; None: zeros.

    Returns:
        The tensors, and the request.

    Raises:
        UnsupportedError: a gradient has the batch of ``is_grads_batched``.
    """
    if any(map(_is_batched, (grad, grad_of_lse))):
        raise UnsupportedError(_BATCHED)
    before, scale, is_bshd = ctx.request
    q, k, v, out, lse, *tensors = ctx.saved_tensors
    if grad is None:
        grad = torch.zeros_like(out)
    return (grad, q, k, v, out, lse, grad_of_lse), (*before, tensors, scale, is_bshd)


class _Attention(Function):
    """Attention with gradients."""

    @staticmethod
    def forward(
        ctx: Any,
        keys: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        request: tuple[Any, ...],
        names: list[str],
        *_: Tensor,
    ) -> Any:
        out, lse = _redispatch_of_function(ATTENTION, keys, q, k, v, *request, True)
        keep(ctx, (q, k, v, out, lse), request, names)
        return out, lse

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, grad_of_lse: Tensor | None) -> Any:
        if grad is None and grad_of_lse is None:
            return gradients_for(ctx, None, 1)
        dense, request = kept(ctx, grad, grad_of_lse)
        given = (*dense, *request)
        return gradients_by(ctx, ATTENTION_BACKWARD, ATTENTION_BACKWARD_PARAMETERS, given, 1)


class _Gradients(Function):
    """Gradients with create_graph=True: their own backward is refused."""

    @staticmethod
    def forward(ctx: Any, operator: Any, keys: Any, *arguments: Any) -> Any:
        return tuple(_redispatch_of_function(operator, keys, *arguments))

    @staticmethod
    def backward(ctx: Any, *_: Any) -> NoReturn:
        raise UnsupportedError(_SECOND)


_Key: Any = torch._C.DispatchKey
_keys_of_plain_tensors = 0
for _key in (_Key.CPU, _Key.CUDA, _Key.ADInplaceOrView, _Key.BackendSelect):
    _keys_of_plain_tensors |= torch._C.DispatchKeySet(_key).raw_repr()
_other_keys = torch._C._after_autograd_keyset.raw_repr() & ~_keys_of_plain_tensors


def _is_plain(keys: Any, *tensors: Any) -> bool:
    """Whether a call has no gradients, and nothing else sees it: code that torch.compile made.

    Such a call need not go through the dispatcher a second time, which took 9 of 29 microseconds.
    """
    q = tensors[0]
    return (
        not torch.is_grad_enabled()
        and not keys.raw_repr() & _other_keys
        and (q.is_cuda or q.is_cpu)
        and not _needs_dispatcher(*tensors)
    )


def _attention(keys: Any, q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> Any:
    *request, return_lse = rest
    dense, tensors = (q, k, v), tensors_of_operator(request)
    if _is_plain(keys, *dense, *tensors.values()):
        return attention(q, k, v, *rest)
    reason = why_no_gradients(dense, tensors)
    if reason is not None:
        raise UnsupportedError(reason)
    is_trained = any(map(requires_grad, tensors.values()))
    names = trained(as_variant(request[0]), tensors) if is_trained else []
    if not names and not any(map(requires_grad, dense)):
        return _redispatch(ATTENTION, keys, *dense, *request, return_lse)
    with _single_level():
        of_names = (tensors[name] for name in names)
        out, lse = _Attention.apply(keys, *dense, tuple(request), names, *of_names)
    return out, lse if return_lse else q.new_empty(0, dtype=torch.float32)


def _attention_into(keys: Any, *arguments: Any) -> Any:
    dense, request = arguments[:4], arguments[4:]
    tensors = tensors_of_operator(request)
    reason = why_no_gradients(dense, tensors)
    if reason is None and any(map(requires_grad, (*dense, *tensors.values()))):
        reason = _OUT
    if reason is not None:
        raise UnsupportedError(reason)
    return _redispatch(ATTENTION_INTO, keys, *arguments)


def _rule_of_gradients(operator: Any, compute: Any) -> Any:
    def rule(keys: Any, *arguments: Any) -> Any:
        dense = arguments[:7]
        if _is_plain(keys, *dense, *tensors_of_operator(arguments[7:]).values()):
            return compute(*arguments)
        if any(map(has_tangent, dense)):
            raise UnsupportedError(_FORWARD_MODE)
        if not any(map(requires_grad, dense)):
            return _redispatch(operator, keys, *arguments)
        with _single_level():
            return _Gradients.apply(operator, keys, *arguments)

    return rule


for _operator, _rule in (
    (ATTENTION, _attention),
    (ATTENTION_INTO, _attention_into),
    (
        ATTENTION_BACKWARD,
        _rule_of_gradients(ATTENTION_BACKWARD, attention_backward),
    ),
    (
        ATTENTION_BACKWARD_PARAMETERS,
        _rule_of_gradients(ATTENTION_BACKWARD_PARAMETERS, attention_backward_parameters),
    ),
):
    LIBRARY.impl(_operator, _rule, "Autograd", with_keyset=True)
