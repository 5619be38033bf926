# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operators for compiled code: tesela::distributed_attention, and the operator of its gradients.

torch.compile cannot trace plans and messages between ranks. So a call is one operator in its graph.
The plan is passed as a tensor with its number, which is an argument of the graph. Another plan,
such as one for other documents, needs no new compilation.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from tesela._errors import InvalidArgumentError
from tesela._variant import Variant, as_variant
from tesela.distributed._agree import connect
from tesela.torch._launch import new_lse, new_output
from tesela.torch._operator import LIBRARY
from tesela.torch._request import Request, to_operator

if TYPE_CHECKING:
    from tesela.distributed._plan import Plan

_torch_library: Any = torch.library  # its functions have no type hints

_plans: WeakValueDictionary[int, Plan] = WeakValueDictionary()
_numbers = itertools.count()

_REQUEST: Final = (
    "Tensor plan, str variant, str[] number_names, Scalar[] numbers, str[] tensor_names, "
    "Tensor[] tensors, float? scale, bool return_lse, bool sum_gradients, str[] wanted"
)
"""The common arguments of both operators. An empty variant means the plan's variant. ``wanted``
has the names of the parameters whose gradients are needed, and names of ``DENSE``."""

DENSE: Final = ("dense.q", "dense.k", "dense.v")
"""The names of q, k and v in ``wanted``. A parameter may be called v, but its name has no dot."""

_TENSORS: Final = 5
"""The index of ``tensors`` in a request."""

for _schema in (
    f"distributed_attention(Tensor q, Tensor k, Tensor v, {_REQUEST}) -> (Tensor, Tensor)",
    # The gradients of q, k, v and of the parameters in ``wanted``, in the order of tensor_names.
    "distributed_attention_backward(Tensor? grad, Tensor? grad_of_lse, Tensor q, Tensor k, "
    f"Tensor v, Tensor out, Tensor lse, {_REQUEST}) -> Tensor[]",
):
    LIBRARY.define(_schema, tags=(torch.Tag.pt2_compliant_tag,))

ATTENTION: Final = torch.ops.tesela.distributed_attention.default
BACKWARD: Final = torch.ops.tesela.distributed_attention_backward.default


def number_of(plan: Plan) -> Tensor:
    """A tensor with a number, by which the operators find the plan while it exists."""
    number = next(_numbers)
    _plans[number] = plan
    return torch.tensor(number, device="cpu")


def _plan_of(number: Tensor) -> Plan:
    found = _plans.get(int(number.item()))
    if found is None:
        raise InvalidArgumentError(
            "compiled code uses a plan that no longer exists: keep the plan until the backward "
            "pass has run"
        )
    return found


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    variant: Variant | str | Any,
    plan: Plan,
    scale: float | None,
    return_lse: bool,
    sum_gradients: bool,
    parameters: Mapping[str, Any],
) -> tuple[Tensor, Tensor]:
    """Calls the operator. q, k and v are [batch, heads, tokens, dimension]."""
    if variant is None:
        # The plan has the values that decide its mask. As arguments they would be compared in each
        # call.
        names = {name: value for name, value in parameters.items() if value is not None}
        tensors = {name: value for name, value in names.items() if isinstance(value, Tensor)}
        numbers = {name: value for name, value in names.items() if name not in tensors}
        given: tuple[Any, ...] = (
            *("", list(numbers), list(numbers.values())),
            *(list(tensors), list(tensors.values())),
        )
    else:
        given = to_operator(Request(as_variant(variant), parameters, scale, False))[:5]
    wanted = []
    if torch.is_grad_enabled():
        named = zip((*DENSE, *given[3]), (q, k, v, *given[4]), strict=True)
        wanted = [name for name, tensor in named if tensor.requires_grad]
    out, lse = ATTENTION(*(q, k, v, plan.number, *given, scale, return_lse, sum_gradients, wanted))
    return out, lse


class _Wanted:
    """The arguments of an operator, unpacked."""

    def __init__(self, q: Tensor, k: Tensor, v: Tensor, request: Sequence[Any]) -> None:
        from tesela.distributed._attention import Arguments, prepare

        number, variant, number_names, numbers, tensor_names, tensors, *rest = request
        scale, return_lse, sum_gradients, self._wanted = rest
        self.plan = _plan_of(number)
        self.names = [name for name in tensor_names if name in self._wanted]
        parameters = {
            **dict(zip(number_names, numbers, strict=True)),
            **dict(zip(tensor_names, tensors, strict=True)),
        }
        self._arguments = Arguments(
            *(q, k, v, variant or None, self.plan, scale, return_lse, "bhsd", sum_gradients),
            *(0, None, parameters, self._wanted),
        )
        self._prepare = prepare

    def prepared(self, is_compared: bool) -> tuple[Any, Any, Any]:
        """The call, its scheme, and q, k and v. All ranks must call it."""
        return self._prepare(self._arguments, is_compared)


def _attention(q: Tensor, k: Tensor, v: Tensor, *request: Any) -> tuple[Tensor, Tensor]:
    wanted = _Wanted(q, k, v, request)
    call, scheme, dense = wanted.prepared(is_compared=True)
    connect(wanted.plan.group, q.device)
    out, lse, _ = scheme.forward(call, *dense)
    return _laid_out(out, new_output(q, v.shape[3])), lse


def _backward(grad: Tensor | None, grad_of_lse: Tensor | None, *arguments: Any) -> list[Tensor]:
    q, k, v, out, lse, *request = arguments
    wanted = _Wanted(q, k, v, request)
    call, scheme, dense = wanted.prepared(is_compared=False)
    is_needed = any(name in request[-1] for name in DENSE)
    kept = scheme.kept(*dense, out, lse)
    gradients, of_values = scheme.backward(call, kept, grad, grad_of_lse, is_needed)
    of_dense = [
        torch.zeros_like(x) if each is None else _laid_out(each, torch.empty_like(x))
        for each, x in zip(gradients, (q, k, v), strict=True)
    ]
    by_name = dict(zip(call.names, of_values, strict=True))
    learned = (by_name[name] for name in wanted.names)
    return [*of_dense, *(_laid_out(each, each.new_empty(each.shape)) for each in learned)]


def _laid_out(x: Tensor, like: Tensor) -> Tensor:
    """The tensor with the strides of ``like``, which compiled code expects."""
    return x if x.stride() == like.stride() else like.copy_(x)


def _fake_attention(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return new_output(q, v.shape[3]), new_lse(q, False)


def _fake_backward(grad: Any, grad_of_lse: Any, *arguments: Any) -> list[Tensor]:
    q, k, v, _, _, *request = arguments
    names, tensors, wanted = request[_TENSORS - 1], request[_TENSORS], request[-1]
    learned = [x for name, x in zip(names, tensors, strict=True) if name in wanted]
    # Gradients of parameters are contiguous, whatever the parameter's strides are.
    return [*map(torch.empty_like, (q, k, v)), *(x.new_empty(x.shape) for x in learned)]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    request = list(inputs[3:])
    plan, tensors = request[0], request[_TENSORS]
    request[0], request[_TENSORS] = None, None
    ctx.request, ctx.count = request, len(tensors)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*inputs[:3], *output, plan, *tensors)


def _gradients(ctx: Any, grad: Tensor | None, grad_of_lse: Tensor | None) -> tuple[Any, ...]:
    *dense, plan = ctx.saved_tensors[:6]
    tensors = list(ctx.saved_tensors[6:])
    request = list(ctx.request)
    request[0], request[_TENSORS] = plan, tensors
    wanted = request[-1]
    found = list(BACKWARD(grad, grad_of_lse, *dense, *request))
    of_dense = [x if name in wanted else None for name, x in zip(DENSE, found[:3], strict=True)]
    learned = iter(found[3:])
    of_tensors = [next(learned) if name in wanted else None for name in request[_TENSORS - 1]]
    # PyTorch requires an empty list for an argument that is a list without tensors.
    of_request: list[Any] = [[] if each == [] else None for each in ctx.request]
    of_request[_TENSORS] = of_tensors
    return (*of_dense, *of_request)


for _device in ("CPU", "CUDA"):
    LIBRARY.impl("distributed_attention", _attention, _device)
    LIBRARY.impl("distributed_attention_backward", _backward, _device)
_torch_library.register_fake(ATTENTION, _fake_attention, lib=LIBRARY)
_torch_library.register_fake(BACKWARD, _fake_backward, lib=LIBRARY)
_torch_library.register_autograd(ATTENTION, _gradients, setup_context=_keep, lib=LIBRARY)
