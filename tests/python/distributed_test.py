# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention over a sequence that is split over processes, against PyTorch in one process."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tesela
import tesela.distributed
import torch
import torch.distributed as dist
from distributed_cases import BATCH, CASES, HEAD_DIM, HEADS, KV_HEADS, LENGTH
from distributed_ranks import Ranks, started
from gradient_variants import Case, reference_with_lse
from tesela.distributed import _agree, _operator
from tesela.distributed._exchange import sum_over_ranks
from tesela.distributed._machine import Machine
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from torch_gradient_tools import check as check_gradients
from torch_gradient_tools import check_parameter
from torch_tools import check, check_lse, poisoned, random

UNEVEN: dict[int, list[list[tuple[int, int]]]] = {
    2: [[(0, 31), (100, 101)], [(31, 100), (101, LENGTH)]],
    3: [[(140, LENGTH), (0, 1)], [], [(1, 140)]],
    4: [[], [(0, 33), (34, 90)], [(33, 34), (90, 91)], [(91, LENGTH)]],
}
"""Ranges with arbitrary ends. With three and four ranks, one rank has no token."""


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    with started(tmp_path_factory.mktemp("ranks")) as made:
        yield made


def dense(dtype: torch.dtype, heads: int = HEADS, kv_heads: int = KV_HEADS) -> list[Tensor]:
    """q, k, v, and the gradients of the result and of the logarithms."""
    shapes = ((heads, HEAD_DIM), (kv_heads, HEAD_DIM), (kv_heads, HEAD_DIM), (heads, HEAD_DIM))
    found = [
        random(BATCH, h, LENGTH, d, seed=seed, dtype=dtype)
        for seed, (h, d) in enumerate(shapes, start=1)
    ]
    return [*found, random(BATCH, heads, LENGTH, seed=9, dtype=torch.float32)]


def trained(parameters: dict[str, Any]) -> dict[str, Tensor]:
    return {
        name: torch.as_tensor(value).detach().clone().requires_grad_()
        for name, value in parameters.items()
        if isinstance(value, float) or (isinstance(value, Tensor) and value.is_floating_point())
    }


def attend(
    group: Any,
    number: int,
    layout: Any,
    scheme: str,
    dtype: torch.dtype,
    sizes: tuple[int, int] = (HEADS, KV_HEADS),
    axes: str = "bhsd",
    divides: bool = False,
) -> list[Tensor]:
    """On each rank: the whole result, logarithms and gradients, gathered, and of the parameters.

    With ``divides`` a range is divided wherever some of its queries need not wait.
    """
    case = CASES[number]
    parameters = case.parameters()
    learned = trained(parameters)
    heads, kv_heads = sizes
    q, k, v, grad, grad_of_lse = dense(dtype, heads, kv_heads)
    plan = tesela.distributed.plan(
        case.variant,
        length=LENGTH,
        group=group,
        layout=layout,
        scheme=scheme,
        batch=BATCH,
        heads=heads,
        kv_heads=kv_heads,
        machine=Machine(launch=0.0) if divides else None,
        cell=16 if divides else None,
        **{**parameters, **learned},
    )
    own = [plan.shard(each).requires_grad_() for each in (q, k, v)]
    given = own if axes == "bhsd" else [each.transpose(1, 2) for each in own]
    with poisoned():
        out, lse = tesela.distributed.attention(
            *given, plan=plan, return_lse=True, layout=axes, **{**parameters, **learned}
        )
        if axes == "bshd":
            out = out.transpose(1, 2)
        finite = lse.masked_fill(lse.isneginf(), 0.0)
        loss = (out * plan.shard(grad)).sum() + (finite * plan.shard(grad_of_lse)).sum()
        loss.backward()
    results = [out, *(each.grad for each in own)]
    whole = [plan.gather(each.detach()) for each in results]
    return [*whole, plan.gather(lse.detach()), *(each.grad for each in learned.values())]


def compare(case: Case, dtype: torch.dtype, found: list[Tensor], sizes: tuple[int, int]) -> None:
    """Compares the results of a rank with float64."""
    q, k, v, grad, grad_of_lse = (each.double() for each in dense(dtype, *sizes))
    parameters = case.parameters()
    exact = {
        name: each.detach().double().requires_grad_() for name, each in trained(parameters).items()
    }
    given = [each.requires_grad_() for each in (q, k, v)]
    out, lse = reference_with_lse(*given, case, {**parameters, **exact})
    finite = lse.masked_fill(lse.isneginf(), 0.0)
    loss = (out * grad).sum() + (finite * grad_of_lse).sum()
    wanted = torch.autograd.grad(loss, [*given, *exact.values()])
    got_out, *got, got_lse = found[:5]
    check(got_out, out.detach())
    check_lse(got_lse, lse.detach())
    check_gradients(got, wanted[:3], dtype)
    for each, exact_each, like in zip(
        found[5:], wanted[3:], trained(parameters).values(), strict=True
    ):
        check_parameter(each, exact_each, like, dtype)


def number_of(variant: str) -> int:
    return next(number for number, case in enumerate(CASES) if case.variant == variant)


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.name for case in CASES])
def test_variants(ranks: Ranks, number: int) -> None:
    """Forward and backward, with 2, 3 or 4 ranks, uneven ranges, and a rank without tokens."""
    size = 2 + number % 3
    scheme = ("gather", "ring")[number // 3 % 2]
    for found in ranks.run(size, attend, number, UNEVEN[size], scheme, torch.float32):
        compare(CASES[number], torch.float32, found, (HEADS, KV_HEADS))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("variant", ["documents_causal", "sliding_window", "streaming"])
@pytest.mark.parametrize("size", [2, 3, 4])
def test_queries_that_need_not_wait(
    ranks: Ranks, size: int, variant: str, dtype: torch.dtype
) -> None:
    """Ranges are divided; with uneven ones keys come once more for the backward pass."""
    number = number_of(variant)
    for layout in ("contiguous", UNEVEN[size]):
        arguments = (number, layout, "gather", dtype, (HEADS, KV_HEADS), "bhsd", True)
        for found in ranks.run(size, attend, *arguments):
            compare(CASES[number], dtype, found, (HEADS, KV_HEADS))


@pytest.mark.parametrize("layout", ["contiguous", "zigzag", "striped", "near", "balanced", "work"])
def test_layouts(ranks: Ranks, layout: str) -> None:
    number = number_of("documents_causal")
    (found, *_) = ranks.run(3, attend, number, layout, "ring", torch.bfloat16)
    compare(CASES[number], torch.bfloat16, found, (HEADS, KV_HEADS))


@pytest.mark.parametrize("variant", ["alibi", "clusters", "learned_sinks", "learned_bias"])
def test_heads_are_dealt(ranks: Ranks, variant: str) -> None:
    number = number_of(variant)
    (found, *_) = ranks.run(2, attend, number, UNEVEN[2], "heads", torch.float32)
    compare(CASES[number], torch.float32, found, (HEADS, KV_HEADS))


@pytest.mark.parametrize("scheme", ["gather", "ring", "heads"])
def test_tokens_before_heads(ranks: Ranks, scheme: str) -> None:
    number = number_of("causal")
    sizes = (8, 4)
    arguments = (number, "zigzag", scheme, torch.bfloat16, sizes, "bshd")
    (found, *_) = ranks.run(4, attend, *arguments)
    compare(CASES[number], torch.bfloat16, found, sizes)


def attend_with_some_lse(group: Any, scheme: str) -> list[Tensor]:
    """The logarithms' gradient, which only rank 0 has, and the gradients of q, k and v,
    gathered."""
    number = number_of("causal")
    *qkv, grad, grad_of_lse = dense(torch.float32)
    plan = tesela.distributed.plan(
        CASES[number].variant, length=LENGTH, group=group, layout="zigzag", scheme=scheme
    )
    rank = dist.get_rank(group)
    own = [plan.shard(each).requires_grad_() for each in qkv]
    out, lse = tesela.distributed.attention(*own, plan=plan, return_lse=True)
    grad, grad_of_lse = plan.shard(grad), plan.shard(grad_of_lse)
    if rank == 0:
        ((out * grad).sum() + (lse * grad_of_lse).sum()).backward()
    else:
        (out * grad).sum().backward()
    of_lse = plan.gather(grad_of_lse if rank == 0 else torch.zeros_like(grad_of_lse))
    return [of_lse, *(plan.gather(each.grad) for each in own)]


@pytest.mark.parametrize("scheme", ["gather", "ring", "heads"])
def test_one_rank_uses_the_logarithms(ranks: Ranks, scheme: str) -> None:
    case = CASES[number_of("causal")]
    q, k, v, grad, _ = (each.double() for each in dense(torch.float32))
    for of_lse, *found in ranks.run(2, attend_with_some_lse, scheme):
        given = [each.requires_grad_() for each in (q, k, v)]
        out, lse = reference_with_lse(*given, case, {})
        loss = (out * grad).sum() + (lse * of_lse.double()).sum()
        assert 0 < int((of_lse != 0).sum()) < of_lse.numel()
        check_gradients(found, torch.autograd.grad(loss, given), torch.float32)


def connect_as_nccl(group: Any) -> list[Any]:
    """The first messages in a group that claims not to be gloo; gloo still carries them."""
    ranks = list(range(dist.get_world_size(group)))
    made = dist.new_group(ranks, timeout=timedelta(seconds=77), use_local_synchronization=True)
    sums: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_agree, "_backends", lambda group: {"cpu": "nccl"})
        patch.setattr(_agree.dist, "all_reduce", lambda *_, group, **__: sums.append(group))
        host = _agree.host_group(made)
        before = len(sums)
        for _ in range(2):
            _agree.connect(made, torch.device("cpu"))
    timeout = host._get_backend(torch.device("cpu")).options._timeout
    return [host is not made, before, [each is made for each in sums], timeout.total_seconds()]


def test_the_first_messages_are_of_all_ranks(ranks: Ranks) -> None:
    for found in ranks.run(2, connect_as_nccl):
        assert found == [True, 0, [True], 77]


def attend_to_arrays(group: Any) -> list[Tensor]:
    """With NumPy arrays as captured tensors, and another default device."""
    q, k, v, *_ = dense(torch.float32)
    ids = CASES[number_of("documents_causal")].parameters()["id"]
    whole = tesela.attention(q, k, v, "documents_causal", id=ids)
    slope = np.linspace(0.1, 0.4, HEADS, dtype=np.float32)
    biased = tesela.attention(q, k, v, "alibi", slope=torch.tensor(slope))
    with torch.device("meta"):
        plan = tesela.distributed.plan(
            "documents_causal", length=LENGTH, group=group, id=ids.numpy(), heads=HEADS
        )
        own = [plan.shard(each) for each in (q, k, v)]
        found = tesela.distributed.attention(*own, plan=plan)
        again = tesela.distributed.attention(*own, plan=plan, id=ids.numpy().copy())
        alibi = tesela.distributed.plan("alibi", length=LENGTH, group=group, layout=plan.ranges)
        other = tesela.distributed.attention(
            *own, plan=alibi, slope=slope, scale=np.float32(HEAD_DIM**-0.5)
        )
    return [found - plan.shard(whole), again - plan.shard(whole), other - plan.shard(biased)]


def test_arrays_and_another_default_device(ranks: Ranks) -> None:
    for differences in ranks.run(2, attend_to_arrays):
        for each in differences:
            assert each.abs().max() < 1e-5


def test_the_same_bits(ranks: Ranks) -> None:
    arguments = (number_of("learned_sinks"), "striped", "ring", torch.bfloat16)
    first, second = (ranks.run(4, attend, *arguments) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_one_rank_has_the_bits_of_one_process(ranks: Ranks) -> None:
    (found,) = ranks.run(1, attend, number_of("causal"), "search", "auto", torch.bfloat16)
    q, k, v, *_ = dense(torch.bfloat16)
    assert torch.equal(found[0], tesela.attention(q, k, v, "causal"))


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


def compile_for_plans(group: Any, scheme: str) -> list[Any]:
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
            "documents_causal", length=LENGTH, group=group, layout=UNEVEN[2], scheme=scheme, id=ids
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


@pytest.mark.parametrize("scheme", ["ring", "heads"])
def test_compiled_code_takes_other_plans(ranks: Ranks, scheme: str) -> None:
    q, k, v, grad, grad_of_lse = dense(torch.float32)
    for count, *found in ranks.run(2, compile_for_plans, scheme):
        assert count == 1
        for size, got in zip((20, 60), found, strict=True):
            ids = torch.arange(LENGTH).repeat(BATCH, 1).int() // size
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


def sum_parts(group: Any, count: int) -> Tensor:
    plan = tesela.distributed.plan("causal", length=LENGTH, group=group)
    rank = dist.get_rank(group)
    own = torch.arange(count, dtype=torch.float32).view(1, -1) * (rank + 1)
    return sum_over_ranks(plan, own, [True, False, True])


@pytest.mark.parametrize("count", [5, 20001])
def test_sums_over_ranks(ranks: Ranks, count: int) -> None:
    """In one round of messages, and in parts. The second rank has no tensor."""
    for found in ranks.run(3, sum_parts, count):
        assert torch.equal(found, torch.arange(count, dtype=torch.float32).view(1, -1) * 4)


def run_page(group: Any, page: str) -> list[str]:
    """The lines that the page's examples print."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        names: dict[str, Any] = {}
        for example in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
            exec(compile(example, "distributed.md", "exec"), names)
    return printed.getvalue().strip().splitlines()


def test_the_page(ranks: Ranks) -> None:
    page = (Path(__file__).parents[2] / "docs" / "distributed.md").read_text()
    for lines in ranks.run(4, run_page, page):
        assert len(lines) > 8
        for line in lines:
            shown = f"    {line}\n" in page or f"\n{line}\n" in page
            assert shown or line.startswith(("    ", "  rank", "     ")), line


def refuse(group: Any, change: str) -> str:
    """The error on each rank if the second rank calls with another argument."""
    is_other = dist.get_rank(group) == 1

    def pick(usual: Any, other: Any, of: str) -> Any:
        return other if is_other and change == of else usual

    ids = torch.arange(LENGTH).repeat(BATCH, 1).int() // pick(20, 30, "documents")
    plan = tesela.distributed.plan(
        pick("documents_causal", "documents", "variant"),
        length=LENGTH,
        group=group,
        layout=pick("zigzag", "contiguous", "layout"),
        scheme=pick("gather", "ring", "scheme"),
        id=ids,
    )
    q, k, v = (plan.shard(each) for each in dense(pick(torch.float32, torch.bfloat16, "type"))[:3])
    if pick(False, True, "tokens"):
        q, k, v = q[:, :, 1:], k[:, :, 1:], v[:, :, 1:]
    if pick(False, True, "heads"):
        k, v = k[:, :1], v[:, :1]
    if pick(False, True, "gradient"):
        q.requires_grad_()
    if pick(False, True, "in place"):
        ids.add_(1)
    if pick(False, True, "past PyTorch"):
        ids.data.zero_()
    given = pick({}, {"id": ids + 1}, "other documents")
    scale = pick(None, 0.5, "scale")
    try:
        tesela.distributed.attention(
            *(q, k, v),
            plan=plan,
            scale=pick(scale, "much", "a text as scale"),
            return_lse=pick(False, True, "logarithms"),
            **given,
        )
    except tesela.Error as error:
        assert type(error) is tesela.InvalidArgumentError or (is_other and error.__cause__)
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("documents", "differ in the plan"),
        (
            "variant",
            "differ in the variant: ranks 0, 2 have documents_causal; rank 1 has documents",
        ),
        ("layout", "differ in the plan"),
        ("scheme", "differ in the scheme: ranks 0, 2 have gather; rank 1 has ring"),
        ("type", "differ in the element type"),
        ("heads", "differ in the shape"),
        ("scale", "differ in the scale: ranks 0, 2 have None; rank 1 has 0.5"),
        ("gradient", "differ in the gradients that are asked for"),
        ("tokens", "tokens, and the plan gives rank 1"),
        ("logarithms", "differ in return_lse: ranks 0, 2 have False; rank 1 has True"),
        ("a text as scale", "ValueError: could not convert string to float: 'much'"),
        ("in place", "was changed in place since the plan was made"),
        ("past PyTorch", "was changed in place since the plan was made"),
        ("other documents", "its value differs from the one that the plan was made for"),
    ],
)
def test_ranks_that_differ_all_raise(ranks: Ranks, change: str, sentence: str) -> None:
    for found in ranks.run(3, refuse, change):
        assert sentence in found
    assert ranks.run(3, refuse, "nothing") == ["", "", ""]
