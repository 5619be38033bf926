# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention over a sequence that is split over ranks, with gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from tesela._dropout import of_seed
from tesela._errors import Error, InvalidArgumentError, UnsupportedError
from tesela._variant import Variant, as_variant
from tesela.distributed import _layout as layouts
from tesela.distributed import _operator
from tesela.distributed._agree import agree, connect, host_group, no_answer
from tesela.distributed._by_heads import ByHeads
from tesela.distributed._by_keys import ByKeys
from tesela.distributed._machine import Shape
from tesela.distributed._plan import BY_HEADS, Plan
from tesela.distributed._positions import Sizes
from tesela.torch._gradients import _FORWARD_MODE, has_tangent, requires_grad, trained
from tesela.torch._launch import check_tensors, why_no_kernel


class Arguments(NamedTuple):
    """The arguments of one rank; see :func:`attention`.

    Attributes:
        wanted: the names of the parameters whose gradients are needed, and those of q, k and v in
            ``_operator.DENSE``; None: the tensors themselves say it.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    variant: Any
    plan: Plan
    scale: float | None
    return_lse: bool
    layout: str
    sum_gradients: bool
    dropout_p: float
    seed: Any
    parameters: Mapping[str, Any]
    wanted: Sequence[str] | None = None


class Call:
    """The common data of all launches of a call.

    Attributes:
        plan: the plan.
        sizes: the sizes of the whole call.
        values: the values of all parameters, by name.
        scale: the scale of the scores.
        names: the names of the parameters that are trained.
        sums_gradients: whether the gradients of parameters are summed over the ranks.
        return_lse: whether the caller gets the logarithms, which may then have gradients.
        dropout: the values of dropout's parameters; empty without dropout.
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
        self.dropout: dict[str, Any] = {}

    def first_heads(self, share: tuple[int, int]) -> tuple[int, int]:
        """The first query head and the first kv head of a part of the heads.

        Args:
            share: the number of the part, and the number of parts.
        """
        number, parts = share
        return number * (self.sizes.H // parts), number * (self.sizes.Hkv // parts)

    @property
    def untrained(self) -> dict[str, Tensor]:
        """The tensors that are not trained, by name, including those of dropout."""
        return {
            name: value
            for name, value in {**self.values, **self.dropout}.items()
            if isinstance(value, Tensor) and name not in self.names
        }

    def replace(self, values: Mapping[str, Tensor]) -> None:
        """Replaces tensors by others with the same elements."""
        for name, value in values.items():
            (self.dropout if name in self.dropout else self.values)[name] = value

    def keep_inference_tensors(self) -> None:
        """Copies tensors of inference mode, because PyTorch does not count their changes."""
        self.replace(
            {name: value.clone() for name, value in self.untrained.items() if value.is_inference()}
        )


class _Attention(torch.autograd.Function):
    """The forward and the backward pass of one rank. All ranks run them in the same order."""

    @staticmethod
    def forward(
        ctx: Any, call: Call, scheme: Any, q: Tensor, k: Tensor, v: Tensor, *values: Tensor
    ) -> Any:
        out, lse, kept = scheme.forward(call, q, k, v)
        if any(ctx.needs_input_grad):
            call.keep_inference_tensors()
        ctx.save_for_backward(*kept, *values, *call.untrained.values())
        ctx.call, ctx.scheme, ctx.count = call, scheme, len(kept)
        ctx.set_materialize_grads(False)
        return out, lse

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor | None, grad_of_lse: Tensor | None) -> Any:
        call: Call = ctx.call
        # Read only once, because a checkpoint recomputes them at each access. PyTorch raises an
        # error if one was changed.
        saved = ctx.saved_tensors
        kept, values = saved[: ctx.count], saved[ctx.count :]
        call.replace(dict(zip((*call.names, *call.untrained), values, strict=True)))
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
    dropout_p: float = 0,
    seed: Any = None,
    **parameters: Any,
) -> Any:
    """Attention over a sequence whose parts are on the ranks of a group. All ranks must call it.

    Positions are global: masks, scores, sinks and captured tensors see the same as in one process
    that has the whole sequence. The result is this rank's part.

    Args:
        q: this rank's queries, ``[batch, heads, tokens of the rank, head dimension]``, in the order
            of the plan's ranges (``Plan.shard``).
        k: this rank's keys, with the same axes; heads may be fewer.
        v: this rank's values.
        variant: the variant for which the plan was made; None: the plan's.
        plan: the result of :func:`tesela.distributed.plan`, the same on each rank.
        scale: the factor of ``q k^T``; None: 1 over the square root of the head dimension.
        return_lse: also return the natural logarithm of each row's sum.
        layout: the order of the axes; "bshd" is ``[batch, tokens, heads, head dimension]``.
        sum_gradients: whether the gradients of captured tensors and scalars are summed over the
            ranks. False: each rank gets a part, and the sum of all parts is the gradient. FSDP and
            DDP sum gradients themselves.
        dropout_p: the probability with which a pair of a query and a key is dropped; see
            :func:`tesela.attention`. For the same seed the pairs are the same as in one process.
        seed: a 64-bit integer, or four int32 on q's device, the same on all ranks. For None or a
            ``torch.Generator`` the first rank draws the seed and sends it to the others.
        parameters: values of the variant's parameters, whole on each rank. Those that decide the
            mask may be left out; then the plan's values are used.

    Returns:
        The result, with the shape and the type of q and the head dimension of v. With
        ``return_lse`` a pair: the result, and the logarithms, float32 ``[batch, heads, tokens]``.

    Raises:
        InvalidArgumentError: an argument is not accepted, on this rank or on another one, or the
            ranks' arguments differ. Each rank raises it, and nothing was sent.
        Error: this rank failed in another way before anything was sent. The others raise an
            InvalidArgumentError that names it.
        CancelledError: a rank did not answer.
    """
    arguments = Arguments(
        *(q, k, v, variant, plan, scale, return_lse, layout, sum_gradients),
        *(dropout_p, seed, parameters),
    )
    if not torch.compiler.is_compiling():
        return _attend(arguments)
    return _outside_of_graphs(arguments) if dropout_p else _in_graph(arguments)


def _check_plan(plan: Any) -> None:
    if not isinstance(plan, Plan):
        raise InvalidArgumentError(
            f"plan is a {type(plan)}, it must be what tesela.distributed.plan gives"
        )


def _attend(arguments: Arguments) -> Any:
    _check_plan(arguments.plan)
    call, scheme, dense = prepare(arguments, is_compared=True)
    connect(call.plan.group, dense[0].device)
    out, lse = _Attention.apply(call, scheme, *dense, *(call.values[name] for name in call.names))
    if arguments.layout == "bshd":
        out = out.transpose(1, 2)
    return (out, lse) if arguments.return_lse else out


def _in_graph(arguments: Arguments) -> Any:
    """Like ``_attend``, through one operator, which torch.compile can put into a graph."""
    _check_plan(arguments.plan)
    q, k, v = arguments.q, arguments.k, arguments.v
    if arguments.layout == "bshd":
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    out, lse = _operator.attention(
        *(q, k, v, arguments.variant, arguments.plan, arguments.scale, arguments.return_lse),
        *(arguments.sum_gradients, arguments.parameters),
    )
    if arguments.layout == "bshd":
        out = out.transpose(1, 2)
    return (out, lse) if arguments.return_lse else out


# torch.compiler.disable does the same, but takes seconds to import torch._dynamo, which eager code
# does not need.
_outside_of_graphs: Any = torch._disable_dynamo(_attend)  # type: ignore[attr-defined]


def prepare(
    arguments: Arguments, is_compared: bool
) -> tuple[Call, ByKeys | ByHeads, tuple[Tensor, Tensor, Tensor]]:
    """The call, its scheme, and q, k and v with the axis of heads before tokens.

    Args:
        arguments: the arguments of this rank.
        is_compared: whether the ranks compare them. Then all ranks must call it, and all raise if
            one has to.
    """
    plan = arguments.plan
    plan._own_rank()
    failure: Error | None = None
    facts: dict[str, Any] = {}
    prepared: Any = None
    try:
        prepared, facts = _prepare(arguments)
    except Error as error:
        failure = error
    except Exception as error:  # any error, because the other ranks would wait for this one
        failure = Error(f"{type(error).__name__}: {error}")
        failure.__cause__ = error
    if is_compared:
        agree(plan.group, facts, failure)
    elif failure is not None:
        raise failure
    call, scheme, dense = prepared
    if arguments.dropout_p:
        call.dropout = {
            "dropout.p": float(arguments.dropout_p),
            **_seed_of_all(plan, arguments.seed),
        }
    return call, scheme, dense


def _is_drawn(seed: Any) -> bool:
    return seed is None or isinstance(seed, torch.Generator)


def _seed_of_all(plan: Plan, seed: Any) -> dict[str, Any]:
    """The values of dropout's parameters, the same on all ranks. All ranks must call it."""
    if isinstance(seed, Tensor):
        return {"dropout.seed": 0, "dropout.state": seed}
    if not _is_drawn(seed):
        return of_seed(seed)
    device = "cpu" if seed is None else seed.device
    words = torch.randint(2**32, (4,), dtype=torch.int64, device=device, generator=seed).cpu()
    first = dist.get_global_rank(plan.group, 0) if plan.group is not None else 0
    try:
        dist.broadcast(words, first, group=host_group(plan.group))
    except RuntimeError as error:
        no_answer(error)
    names = ("dropout.seed", "dropout.seed_high", "dropout.offset", "dropout.offset_high")
    return dict(zip(names, words.tolist(), strict=True))


def _prepare(arguments: Arguments) -> tuple[Any, dict[str, Any]]:
    """The call, and the facts on which ranks must agree. Raises if an argument is wrong."""
    q, k, v, variant, plan = arguments[:5]
    rank = plan._own_rank()
    scale = None if arguments.scale is None else float(arguments.scale)
    return_lse, sum_gradients = bool(arguments.return_lse), bool(arguments.sum_gradients)
    if arguments.layout not in ("bhsd", "bshd"):
        raise InvalidArgumentError(
            f"the layout is {arguments.layout!r}, but it must be 'bhsd' or 'bshd'"
        )
    check_tensors(q, k, v)
    reason = why_no_kernel(q)
    if reason is not None:
        raise UnsupportedError(reason)
    if arguments.layout == "bshd":
        q, k, v = (each.transpose(1, 2) for each in (q, k, v))
    _check_dense(q, k, v, layouts.tokens(plan.ranges[rank]), rank)
    whole, values = _values_of(variant, plan, arguments.parameters)
    (batch, heads, _, head_dim), kv_heads, head_dim_v = q.shape, k.shape[1], v.shape[3]
    sizes = Sizes(batch, heads, kv_heads, plan.length, plan.length)
    plan.check_values(values)
    values = {name: plan.value_on(name, value, q.device) for name, value in values.items()}
    plan.check_sizes(sizes)
    plan.placed.check_captures(values, sizes)
    if any(map(has_tangent, (q, k, v, *values.values()))):
        raise UnsupportedError(_FORWARD_MODE)
    wanted = arguments.wanted
    names = trained(whole, values) if wanted is None else [x for x in values if x in wanted]
    shape = Shape(batch, heads, kv_heads, head_dim, head_dim_v, q.element_size())
    drops = bool(arguments.dropout_p)
    chosen = plan.scheme_for(shape, drops)
    between = plan.scheme_between_nodes(shape) if chosen == "nodes" else None
    scheme: ByKeys | ByHeads
    if chosen in BY_HEADS:
        scheme = ByHeads(plan, chosen, between)
        scheme.check(kv_heads, drops)
    else:
        scheme = ByKeys(plan, chosen)
        if drops:
            scheme.check_dropout()
    asked = [
        name
        for name, tensor in zip(_operator.DENSE, (q, k, v), strict=True)
        if (name in wanted if wanted is not None else requires_grad(tensor))
    ]
    facts = {
        "the variant": whole.name,
        "the shape [batch, heads, kv heads, head dimensions]": [*sizes[:3], head_dim, head_dim_v],
        "the element type": str(q.dtype),
        "the kind of device": q.device.type,
        "the number of ranks of a node": plan.machine.ranks_per_node,
        "the plan (its length, ranges, variant and what decides its mask)": plan.digest,
        "the scheme": chosen if between is None else f"{chosen}, {between} between them",
        "the scale": scale,
        "return_lse": return_lse,
        "sum_gradients": sum_gradients,
        "the gradients that are asked for": [
            *(each.removeprefix("dense.") for each in asked),
            *(f"parameter {each}" for each in names),
        ],
        "the parameters": {name: _told(value) for name, value in sorted(values.items())},
        "dropout (its probability, and its seed)": _told_dropout(arguments),
    }
    call = Call(plan, sizes, values, scale, names, sum_gradients, return_lse)
    return (call, scheme, (q, k, v)), facts


def _check_dense(q: Tensor, k: Tensor, v: Tensor, held: int, rank: int) -> None:
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
    if k.shape[0] != q.shape[0] or v.shape[:2] != k.shape[:2] or k.shape[3] != q.shape[3]:
        raise InvalidArgumentError(
            f"q has the shape {tuple(q.shape)}, k {tuple(k.shape)} and v {tuple(v.shape)}: batches "
            "and head dimensions of q and k, and heads of k and v, must be the same"
        )
    if k.shape[1] == 0 or q.shape[1] % k.shape[1]:
        raise InvalidArgumentError(
            f"q has {q.shape[1]} heads and k {k.shape[1]}: the first must be a multiple of the "
            "second"
        )


def _values_of(
    variant: Any, plan: Plan, parameters: Mapping[str, Any]
) -> tuple[Variant, dict[str, Any]]:
    """The variant bound to all of its values, and the values."""
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
    return whole, values


def _told_dropout(arguments: Arguments) -> Any:
    """The facts about dropout that ranks compare."""
    probability, seed = float(arguments.dropout_p), arguments.seed
    if not 0 <= probability <= 1:
        raise InvalidArgumentError(
            f"the probability of dropout is {probability}, it must lie in [0, 1]"
        )
    if probability == 0:
        return [0.0]
    if _is_drawn(seed):
        return [probability, "drawn"]
    return [probability, _told(seed) if isinstance(seed, Tensor) else str(of_seed(seed))]


def _told(value: Any) -> Any:
    """A parameter as ranks compare it: a number, or the type and the shape of a tensor."""
    if isinstance(value, Tensor) and value.dim():
        return [str(value.dtype), list(value.shape)]
    return float(value)
