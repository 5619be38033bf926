# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention over a sequence that is split over processes, against PyTorch in one process.

Tests of training are in ``distributed_training_test.py``.
"""

from __future__ import annotations

import contextlib
import io
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
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
    attend,
    compare,
    dense,
    number_of,
)
from distributed_ranks import Ranks
from gradient_variants import reference_with_lse
from tesela.distributed import _agree
from tesela.distributed._exchange import sum_over_ranks
from tesela.distributed._machine import Machine
from torch import Tensor
from torch_gradient_tools import check as check_gradients


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
    """Ranges are divided. With uneven ranges, keys are sent again for the backward pass."""
    number = number_of(variant)
    machine = Machine(launch=0.0)  # a division costs nothing
    for layout in ("contiguous", UNEVEN[size]):
        arguments = (number, layout, "gather", dtype, (HEADS, KV_HEADS), "bhsd", machine, 16)
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


@pytest.mark.parametrize("scheme", ["gather", "ring", "heads", "nodes"])
def test_tokens_before_heads(ranks: Ranks, scheme: str) -> None:
    number = number_of("causal")
    sizes = (8, 4)
    arguments = (number, "zigzag", scheme, torch.bfloat16, sizes, "bshd", Machine(ranks_per_node=2))
    (found, *_) = ranks.run(4, attend, *arguments)
    compare(CASES[number], torch.bfloat16, found, sizes)


def attend_with_some_lse(group: Any, scheme: str) -> list[Tensor]:
    """The logarithms' gradient, which only rank 0 has, and the gradients of q, k and v,
    gathered."""
    number = number_of("causal")
    *qkv, grad, grad_of_lse = dense(torch.float32)
    plan = tesela.distributed.plan(
        CASES[number].variant,
        length=LENGTH,
        group=group,
        layout="zigzag",
        scheme=scheme,
        machine=Machine(ranks_per_node=2),
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


@pytest.mark.parametrize(
    ("size", "scheme"), [(2, "gather"), (2, "ring"), (2, "heads"), (4, "nodes")]
)
def test_one_rank_uses_the_logarithms(ranks: Ranks, size: int, scheme: str) -> None:
    case = CASES[number_of("causal")]
    q, k, v, grad, _ = (each.double() for each in dense(torch.float32))
    for of_lse, *found in ranks.run(size, attend_with_some_lse, scheme):
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
