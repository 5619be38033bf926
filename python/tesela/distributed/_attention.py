# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention over a sequence that is split over ranks, and its gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from tesela._errors import Error, InvalidArgumentError, UnsupportedError
from tesela._variant import Variant, as_variant
from tesela.distributed import _layout as layouts
from tesela.distributed._agree import agree, connect
from tesela.distributed._by_heads import ByHeads
from tesela.distributed._by_keys import ByKeys
from tesela.distributed._machine import Shape
from tesela.distributed._plan import Plan
from tesela.distributed._positions import Sizes
from tesela.torch._gradients import _FORWARD_MODE, has_tangent, trained
from tesela.torch._launch import check_tensors, why_no_kernel


class Call:
    """What all launches of a call share.

    Attributes:
        plan: by which it runs.
        sizes: of everything.
        values: of all parameters, by name.
        scale: of the scores.
        names: of the parameters that are trained.
        sums_gradients: whether these gradients are summed over the ranks.
        return_lse: whether the caller gets the logarithms, and so may have gradients of them.
    """

    def __init__(
        self,
        plan: Plan,
        sizes: Sizes,
        values: Mapping[str, Any],
        scale: float | None,
        names: Sequence[str],
        sums_gradients: bool,
        return_lse: bool,
    ) -> None:
        self.plan = plan
        self.sizes = sizes
        self.values = dict(values)
        self.scale = scale
        self.names = tuple(names)
        self.sums_gradients = sums_gradients
        self.return_lse = return_lse


class _Attention(torch.autograd.Function):
    """The forward and the backward pass of one rank, in step with the others'."""

    @staticmethod
    def forward(
        ctx: Any, call: Call, scheme: Any, q: Tensor, k: Tensor, v: Tensor, *values: Tensor
    ) -> Any:
        out, lse, kept = scheme.forward(call, q, k, v)
        ctx.save_for_backward(*kept, *values)
        ctx.call, ctx.scheme, ctx.count = call, scheme, len(kept)
        ctx.set_materialize_grads(False)
        return out, lse

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor | None, grad_of_lse: Tensor | None) -> Any:
        call: Call = ctx.call
        saved = ctx.saved_tensors  # once: a checkpoint computes them anew each time
        kept, values = saved[: ctx.count], saved[ctx.count :]
        if values:
            call.values.update(zip(call.names, values, strict=True))
        gradients, of_values = ctx.scheme.backward(
            call, kept, grad, grad_of_lse, any(ctx.needs_input_grad[2:5])
        )
        wanted = [
            gradient if is_needed else None
            for gradient, is_needed in zip(gradients, ctx.needs_input_grad[2:5], strict=True)
        ]
        return (None, None, *wanted, *of_values)


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    variant: Variant | str | Any = None,
    *,
    plan: Plan,
    scale: float | None = None,
    return_lse: bool = False,
    layout: Literal["bhsd", "bshd"] = "bhsd",
    sum_gradients: bool = True,
    **parameters: Any,
) -> Any:
    """Attention over a sequence whose parts the ranks of a group hold. All of them call it.

    Positions are global: masks, scores, sinks and captured tensors see what they would see in one
    process that has everything. The result is this rank's part.

    Args:
        q: this rank's queries, ``[batch, heads, tokens of the rank, head dimension]``, in the order
            of the plan's ranges (``Plan.shard``).
        k: its keys, likewise, with as many heads or fewer.
        v: its values.
        variant: what the plan was made for; None: the same.
        plan: of :func:`tesela.distributed.plan`, the same on each rank.
        scale: of ``q k^T``; None: one by the root of the head dimension.
        return_lse: also give the natural logarithm of each row's sum.
        layout: the order of axes; "bshd" is ``[batch, tokens, heads, head dimension]``.
        sum_gradients: whether the gradients of captured tensors and scalars are summed over the
            ranks. False: each rank has what its own rows add, for FSDP and DDP, which sum
            themselves.
        parameters: values of the variant's parameters, whole on each rank. Those that decide the
            mask may be left out; they are the plan's.

    Returns:
        The result, with the shape and the type of q and the head dimension of v; with
        ``return_lse`` a pair of it and the logarithms, float32 ``[batch, heads, tokens]``.

    Raises:
        InvalidArgumentError: an argument does not fit, on this rank or on another, or ranks
            differ; each rank raises it, and nothing was sent.
        Error: this rank failed otherwise before anything was sent; the others raise an
            InvalidArgumentError that names it.
        CancelledError: a rank did not answer.
    """
    attend = _outside_of_graphs if torch.compiler.is_compiling() else _attend
    return attend(q, k, v, variant, plan, scale, return_lse, layout, sum_gradients, parameters)


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    variant: Any,
    plan: Plan,
    scale: float | None,
    return_lse: bool,
    layout: str,
    sum_gradients: bool,
    parameters: Mapping[str, Any],
) -> Any:
    if not isinstance(plan, Plan):
        raise InvalidArgumentError(
            f"plan is a {type(plan)}, it must be what tesela.distributed.plan gives"
        )
    plan._own_rank()
    failure: Error | None = None
    facts: dict[str, Any] = {}
    prepared: Any = None
    try:
        prepared, facts = _prepare(
            *(q, k, v, variant, plan, scale, return_lse, layout, sum_gradients, parameters)
        )
    except Error as error:
        failure = error
    except Exception as error:  # whatever it is: the other ranks would wait for this one
        failure = Error(f"{type(error).__name__}: {error}")
        failure.__cause__ = error
    agree(plan.group, facts, failure)
    call, scheme, dense = prepared
    connect(plan.group, q.device)
    out, lse = _Attention.apply(call, scheme, *dense, *(call.values[name] for name in call.names))
    if layout == "bshd":
        out = out.transpose(1, 2)
    return (out, lse) if return_lse else out


# Compiled code breaks its graph here. torch.compiler.disable says the same, and takes seconds to
# import torch._dynamo, which eager code has no need of.
_outside_of_graphs: Any = torch._disable_dynamo(_attend)  # type: ignore[attr-defined]


def _prepare(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    variant: Any,
    plan: Plan,
    scale: float | None,
    return_lse: bool,
    layout: str,
    sum_gradients: bool,
    parameters: Mapping[str, Any],
) -> tuple[Any, dict[str, Any]]:
    """The call, and what ranks must agree in. Raises where this rank's arguments do not fit."""
    rank = plan._own_rank()
    scale = None if scale is None else float(scale)
    return_lse, sum_gradients = bool(return_lse), bool(sum_gradients)
    if layout not in ("bhsd", "bshd"):
        raise InvalidArgumentError(f"the layout is {layout!r}, it must be 'bhsd' or 'bshd'")
    check_tensors(q, k, v)
    reason = why_no_kernel(q)
    if reason is not None:
        raise UnsupportedError(reason)
    if layout == "bshd":
        q, k, v = (each.transpose(1, 2) for each in (q, k, v))
    held = layouts.tokens(plan.ranges[rank])
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.shape[2] != held:
            raise InvalidArgumentError(
                f"{name} has {tensor.shape[2]} tokens, and the plan gives rank {rank} {held}: pass "
                "plan.shard(...) of the whole"
            )
        if tensor.dtype != q.dtype or tensor.device != q.device:
            raise InvalidArgumentError(
                f"{name} is {tensor.dtype} on {tensor.device}, q is {q.dtype} on {q.device}: all "
                "three must have one type and one device"
            )
    (batch, heads, _, head_dim), kv_heads, head_dim_v = q.shape, k.shape[1], v.shape[3]
    if k.shape[0] != batch or v.shape[:2] != k.shape[:2] or k.shape[3] != head_dim:
        raise InvalidArgumentError(
            f"q has the shape {tuple(q.shape)}, k {tuple(k.shape)} and v {tuple(v.shape)}: batches "
            "and head dimensions of q and k, and heads of k and v, must be the same"
        )
    if kv_heads == 0 or heads % kv_heads:
        raise InvalidArgumentError(
            f"q has {heads} heads and k {kv_heads}: the first must be a multiple of the second"
        )
    whole = plan.variant if variant is None else as_variant(variant)
    if whole.text != plan.variant.text:
        raise InvalidArgumentError(
            f"the variant is '{whole.name}', with another text than '{plan.variant.name}', for "
            "which the plan was made: make a plan for it"
        )
    whole = plan.variant.bind(**{**whole.bound, **parameters})
    defaults = {each.name: each.default for each in whole.parameters}
    values = {
        name: whole.bound.get(name, default)
        for name, default in defaults.items()
        if whole.bound.get(name, default) is not None
    }
    if whole._constants != plan.variant._constants:
        raise InvalidArgumentError(
            f"the constants are {dict(whole._constants)}, the plan was made for "
            f"{dict(plan.variant._constants)}: make a plan for these"
        )
    sizes = Sizes(batch, heads, kv_heads, plan.length, plan.length)
    plan.check_values(values)
    values = {name: plan.value_on(name, value, q.device) for name, value in values.items()}
    plan.check_sizes(sizes)
    plan.placed.check_captures(values, sizes)
    if any(map(has_tangent, (q, k, v, *values.values()))):
        raise UnsupportedError(_FORWARD_MODE)
    names = trained(whole, values)
    shape = Shape(batch, heads, kv_heads, head_dim, head_dim_v, q.element_size())
    chosen = plan.scheme_for(shape)
    scheme = (ByHeads if chosen == "heads" else ByKeys)(plan, chosen)
    if isinstance(scheme, ByHeads):
        scheme.check(kv_heads)
    is_training = torch.is_grad_enabled()
    facts = {
        "the variant": whole.name,
        "the shape [batch, heads, kv heads, head dimensions]": [*sizes[:3], head_dim, head_dim_v],
        "the element type": str(q.dtype),
        "the kind of device": q.device.type,
        "the plan (its length, ranges, variant and what decides its mask)": plan.digest,
        "the scheme": chosen,
        "the scale": scale,
        "return_lse": return_lse,
        "sum_gradients": sum_gradients,
        "the gradients that are asked for": [
            name
            for name, tensor in (("q", q), ("k", k), ("v", v))
            if is_training and tensor.requires_grad
        ]
        + names,
        "the parameters": {name: _told(value) for name, value in sorted(values.items())},
    }
    call = Call(plan, sizes, values, scale, names, sum_gradients, return_lse)
    return (call, scheme, (q, k, v)), facts


def _told(value: Any) -> Any:
    """A parameter as ranks compare it: numbers, and of tensors the shape and the type."""
    if isinstance(value, Tensor) and value.dim():
        return [str(value.dtype), list(value.shape)]
    return float(value)
