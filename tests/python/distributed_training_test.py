# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training with a sequence that is split over processes: wrappers of models, compiled code,
changes before the backward pass, and dropout."""

from __future__ import annotations

from typing import Any

import pytest
import tesela
import tesela.distributed
import torch
import torch.distributed as dist
from distributed_cases import (
    BATCH,
    CASES,
    HEAD_DIM,
    HEADS,
    KV_HEADS,
    LENGTH,
    UNEVEN,
    dense,
    number_of,
)
from distributed_ranks import Ranks
from tesela.distributed import _operator
from tesela.distributed._machine import Machine
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from torch_tools import random


class Layer(torch.nn.Module):
    """Attention with trained slopes between two projections."""

    def __init__(self) -> None:
        super().__init__()
        self.into = torch.nn.Linear(24, (HEADS + 2 * KV_HEADS) * HEAD_DIM, bias=False)
        self.out = torch.nn.Linear(HEADS * HEAD_DIM, 24, bias=False)
        self.slope = torch.nn.Parameter(torch.full((HEADS,), 0.25))

    def forward(self, x: Tensor, attend: Any) -> Tensor:
        projected = self.into(x).unflatten(-1, (-1, HEAD_DIM)).transpose(1, 2)
        mixed = attend(*projected.split([HEADS, KV_HEADS, KV_HEADS], 1), self.slope)
        return self.out(mixed.transpose(1, 2).flatten(2))


def train(group: Any, how: str) -> list[Tensor]:
    """The gradients of a layer's weights, times the number of ranks, by which a wrapper divides."""
    torch.manual_seed(3)
    layer: torch.nn.Module = Layer()
    x = random(BATCH, LENGTH, 24, seed=8, dtype=torch.float32)
    if how == "alone":
        found = layer(x, lambda q, k, v, slope: tesela.attention(q, k, v, "alibi", slope=slope))
        found.square().sum().backward()
        return [each.grad for each in layer.parameters()]
    plan = tesela.distributed.plan("alibi", length=LENGTH, group=group)

    def attend(q: Tensor, k: Tensor, v: Tensor, slope: Tensor) -> Tensor:
        return tesela.distributed.attention(
            q, k, v, plan=plan, slope=slope, sum_gradients=how == "plain"
        )

    weights = list(layer.parameters())
    called: Any = layer
    if how == "ddp":
        called = DistributedDataParallel(layer, process_group=group)
    elif how == "fsdp":
        called = fully_shard(layer, mesh=DeviceMesh.from_group(group, "cpu"))
        weights = list(layer.parameters())
    elif how == "compiled":
        called = torch.compile(layer, backend="aot_eager", fullgraph=True)
    elif how == "checkpointed":

        def called(x: Tensor, attend: Any) -> Any:
            return checkpoint(layer, x, attend, use_reentrant=False)

    called(plan.shard(x, 1), attend).square().sum().backward()
    if how in ("plain", "compiled", "checkpointed"):
        for name, each in layer.named_parameters():
            if name != "slope" or how != "plain":  # attention sums that of slope
                dist.all_reduce(each.grad, group=group)
        return [each.grad for each in weights]
    grads = [each.grad for each in weights]
    full = [each.full_tensor() if how == "fsdp" else each for each in grads]
    return [each * dist.get_world_size(group) for each in full]


@pytest.mark.parametrize("how", ["plain", "ddp", "fsdp", "compiled", "checkpointed"])
def test_training(ranks: Ranks, how: str) -> None:
    (wanted,) = ranks.run(1, train, "alone")
    for found in ranks.run(2, train, how):
        for got, exact in zip(found, wanted, strict=True):
            assert (got - exact).norm() <= 2e-5 * exact.norm()


def compile_for_plans(group: Any, ranks: int, scheme: str) -> list[Any]:
    """In compiled code: results and gradients for two batches of documents, and the number of
    graphs."""
    graphs = CompileCounterWithBackend("aot_eager")

    @torch.compile(backend=graphs, fullgraph=True)
    def attend(q: Tensor, k: Tensor, v: Tensor, plan: Any) -> Any:
        return tesela.distributed.attention(q, k, v, plan=plan, return_lse=True, layout="bshd")

    q, k, v, grad, grad_of_lse = dense(torch.float32)
    found: list[Any] = []
    for size in (20, 60):
        ids = torch.arange(LENGTH).repeat(BATCH, 1).int() // size
        plan = tesela.distributed.plan(
            "documents_causal",
            length=LENGTH,
            group=group,
            layout=UNEVEN[ranks],
            scheme=scheme,
            machine=Machine(ranks_per_node=2),
            id=ids,
        )
        own = [plan.shard(each).transpose(1, 2).requires_grad_() for each in (q, k, v)]
        out, lse = attend(*own, plan)
        loss = (out.transpose(1, 2) * plan.shard(grad)).sum() + (
            lse * plan.shard(grad_of_lse)
        ).sum()
        loss.backward()
        results = [out.detach(), *(each.grad for each in own)]
        found.append([plan.gather(each.transpose(1, 2)) for each in results])
    return [graphs.frame_count, *found]


@pytest.mark.parametrize(("size", "scheme"), [(2, "ring"), (2, "heads"), (4, "nodes")])
def test_compiled_code_takes_other_plans(ranks: Ranks, size: int, scheme: str) -> None:
    q, k, v, grad, grad_of_lse = dense(torch.float32)
    for count, *found in ranks.run(size, compile_for_plans, size, scheme):
        assert count == 1
        for length, got in zip((20, 60), found, strict=True):
            ids = torch.arange(LENGTH).repeat(BATCH, 1).int() // length
            given = [each.detach().requires_grad_() for each in (q, k, v)]
            out, lse = tesela.attention(*given, "documents_causal", id=ids, return_lse=True)
            ((out * grad).sum() + (lse * grad_of_lse).sum()).backward()
            for each, exact in zip(got, [out, *(x.grad for x in given)], strict=True):
                assert (each - exact).norm() <= 2e-5 * exact.norm()


def attend_with_v_captured(group: Any) -> list[Tensor]:
    """In compiled code: the whole gradient of the values, with a captured tensor named v."""
    documents = torch.arange(LENGTH).repeat(BATCH, 1).int() // 20
    variant = tesela.variant(
        "attention named(v: i32[B, Sk]) { mask = q >= k && v[b, q] == v[b, k] }", v=documents
    )
    q, k, v, grad, _ = dense(torch.float32)
    plan = tesela.distributed.plan(variant, length=LENGTH, group=group, batch=BATCH)
    values = plan.shard(v).requires_grad_()

    @torch.compile(backend="aot_eager", fullgraph=True)
    def attend(values: Tensor, plan: Any) -> Any:
        return tesela.distributed.attention(*own, values, variant, plan=plan)

    own = plan.shard(q), plan.shard(k)
    (attend(values, plan) * plan.shard(grad)).sum().backward()
    assert values.grad is not None
    return [plan.gather(values.grad)]


def test_a_captured_tensor_may_be_named_v(ranks: Ranks) -> None:
    q, k, v, grad, _ = dense(torch.float32)
    documents = torch.arange(LENGTH).repeat(BATCH, 1).int() // 20
    v.requires_grad_()
    (tesela.attention(q, k, v, "documents_causal", id=documents) * grad).sum().backward()
    assert v.grad is not None
    for (found,) in ranks.run(2, attend_with_v_captured):
        assert (found - v.grad).norm() <= 2e-5 * v.grad.norm()


def lay_out_gradients(group: Any, scheme: str) -> list[list[tuple[int, ...]]]:
    """The strides of the operator's gradients, and those that compiled code expects."""
    table = random(33, HEADS, seed=11, dtype=torch.float32).t()
    q, k, v, grad, _ = dense(torch.float32)
    plan = tesela.distributed.plan("relative_bias", length=LENGTH, group=group, scheme=scheme)
    own = [plan.shard(each).transpose(1, 2).contiguous().transpose(1, 2) for each in (q, k, v)]
    wanted = [*_operator.DENSE, "table"]
    request = (plan.number, "", ["reach"], [16], ["table"], [table], None, False, True, wanted)
    out, lse = _operator.ATTENTION(*own, *request)
    given = (plan.shard(grad), None, *own, out, lse, *request)
    return [
        [each.stride() for each in backward(*given)]
        for backward in (_operator.BACKWARD, _operator._fake_backward)
    ]


@pytest.mark.parametrize("scheme", ["gather", "heads"])
def test_gradients_lie_as_compiled_code_expects(ranks: Ranks, scheme: str) -> None:
    for found, expected in ranks.run(2, lay_out_gradients, scheme):
        assert found == expected


def change_before_backward(group: Any, what: str) -> str:
    """The error if a tensor of the call changes before its backward pass."""
    ids = torch.arange(LENGTH).repeat(BATCH, 1).int() // 20
    state = torch.arange(4).int()
    plan = tesela.distributed.plan(
        "documents_causal", length=LENGTH, group=group, cell=16, layout="zigzag", id=ids
    )
    own = [plan.shard(each).requires_grad_() for each in dense(torch.float32)[:3]]
    dropout = {"dropout_p": 0.5, "seed": state} if what == "state" else {}
    out = tesela.distributed.attention(*own, plan=plan, **dropout)
    (state if what == "state" else ids).zero_()
    with pytest.raises(RuntimeError) as error:
        out.sum().backward()
    return str(error.value)


@pytest.mark.parametrize("what", ["documents", "state"])
def test_changes_before_the_backward_pass_raise(ranks: Ranks, what: str) -> None:
    for sentence in ranks.run(2, change_before_backward, what):
        assert "modified by an inplace operation" in sentence


def change_inference_tensors(group: Any) -> list[Tensor]:
    """The gradient of the keys, with and without a change of the documents before the backward
    pass."""
    found = []
    for is_changed in (False, True):
        with torch.inference_mode():
            ids = torch.arange(LENGTH).repeat(BATCH, 1).int() // 20
        plan = tesela.distributed.plan("documents_causal", length=LENGTH, group=group, id=ids)
        own = [plan.shard(each).requires_grad_() for each in dense(torch.float32)[:3]]
        out = tesela.distributed.attention(*own, plan=plan)
        if is_changed:
            with torch.inference_mode():
                ids.zero_()
        out.square().sum().backward()
        assert own[1].grad is not None
        found.append(own[1].grad)
    return found


def test_tensors_of_inference_mode_are_copied(ranks: Ranks) -> None:
    for unchanged, changed in ranks.run(2, change_inference_tensors):
        assert torch.equal(unchanged, changed)


def attend_with_dropout(group: Any, scheme: str, layout: Any, seed: Any) -> list[Tensor]:
    """The result and gradients with dropout, gathered."""
    number = number_of("alibi")
    parameters = CASES[number].parameters()
    slope = parameters["slope"].requires_grad_()
    q, k, v, grad, _ = dense(torch.float32)
    plan = tesela.distributed.plan(
        "alibi", length=LENGTH, group=group, layout=layout, scheme=scheme, cell=16
    )
    if seed is None:  # the first rank's generator decides
        torch.manual_seed(7 + dist.get_rank(group))
    own = [plan.shard(each).requires_grad_() for each in (q, k, v)]
    out = tesela.distributed.attention(*own, plan=plan, slope=slope, dropout_p=0.3, seed=seed)
    (out * plan.shard(grad)).sum().backward()
    assert slope.grad is not None
    return [*(plan.gather(x) for x in (out.detach(), *(x.grad for x in own))), slope.grad]


@pytest.mark.parametrize(
    ("scheme", "layout", "seed"),
    [
        ("gather", [[(0, 32), (96, 112)], [(32, 96), (112, LENGTH)]], 5),
        ("ring", "zigzag", 2**40 + 3),
        ("auto", "contiguous", None),
    ],
)
def test_dropout_drops_the_same_pairs(ranks: Ranks, scheme: str, layout: Any, seed: Any) -> None:
    q, k, v, grad, _ = dense(torch.float32)
    slope = CASES[number_of("alibi")].parameters()["slope"].requires_grad_()
    given = [each.requires_grad_() for each in (q, k, v)]
    if seed is None:
        torch.manual_seed(7)
    out = tesela.attention(*given, "alibi", slope=slope, dropout_p=0.3, seed=seed)
    (out * grad).sum().backward()
    for found in ranks.run(2, attend_with_dropout, scheme, layout, seed):
        wanted = [out.detach(), *(x.grad for x in given), slope.grad]
        for got, exact in zip(found, wanted, strict=True):
            assert (got - exact).norm() <= 2e-5 * exact.norm()


def drop_in_odd_ranges(group: Any) -> str:
    plan = tesela.distributed.plan("causal", length=LENGTH, group=group, layout=UNEVEN[2])
    own = [plan.shard(each) for each in dense(torch.float32)[:3]]
    with pytest.raises(tesela.Error) as error:
        tesela.distributed.attention(*own, plan=plan, dropout_p=0.5, seed=1)
    return str(error.value)


def test_dropout_needs_whole_squares(ranks: Ranks) -> None:
    for sentence in ranks.run(2, drop_in_odd_ranges):
        assert "pairs are dropped in squares of 16 x 16 positions" in sentence
