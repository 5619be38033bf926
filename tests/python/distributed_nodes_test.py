# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The scheme "nodes": heads are exchanged within nodes, and keys move between nodes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import tesela
import tesela.distributed
import torch
from distributed_cases import (
    CASES,
    HEADS,
    KV_HEADS,
    LENGTH,
    attend,
    compare,
    dense,
    number_of,
    trained,
)
from distributed_ranks import Ranks, started
from tesela.distributed._machine import Machine
from torch import Tensor

SIX = [[(0, 20)], [(20, 21), (60, 80)], [(21, 60)], [], [(80, 130)], [(130, LENGTH)]]
"""Uneven ranges of six ranks, of which one has no token."""

NONE_ON_ONE_NODE = [[(0, 20)], [(60, 80)], [], [], [(20, 60)], [(80, LENGTH)]]
"""With two ranks on a node, the second of three nodes has no token."""


@pytest.fixture(scope="module")
def six(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    with started(tmp_path_factory.mktemp("ranks"), processes=6) as made:
        yield made


def size_of_nodes(group: Any, local: str) -> int:
    os.environ["LOCAL_WORLD_SIZE"] = local
    try:
        plan = tesela.distributed.plan("causal", length=LENGTH, group=group)
    finally:
        del os.environ["LOCAL_WORLD_SIZE"]
    return plan.machine.ranks_per_node


def test_torchrun_says_how_many_ranks_a_node_has(six: Ranks) -> None:
    assert six.run(6, size_of_nodes, "2") == 6 * [2]
    assert six.run(3, size_of_nodes, "4") == 3 * [3]
    assert six.run(2, size_of_nodes, "1") == 2 * [1]


def check(six: Ranks, number: int, layout: Any, size: int, between: str, dtype: Any) -> None:
    """Compares all ranks with float64. ``size``: the ranks of a node."""
    sizes = (HEADS, KV_HEADS) if size == 2 else (2 * size, size)
    machine = Machine(ranks_per_node=size)
    arguments = (number, layout, "nodes", dtype, sizes, "bhsd", machine, None, between)
    for found in six.run(6, attend, *arguments):
        compare(CASES[number], dtype, found, sizes)


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.name for case in CASES])
def test_variants(six: Ranks, number: int) -> None:
    """Forward and backward, on three nodes of two ranks."""
    check(six, number, SIX, 2, ("gather", "ring")[number % 2], torch.float32)


@pytest.mark.parametrize("between", ["gather", "ring"])
@pytest.mark.parametrize("variant", ["causal", "documents_causal", "sliding_window"])
def test_two_nodes_of_three_ranks(six: Ranks, variant: str, between: str) -> None:
    check(six, number_of(variant), SIX, 3, between, torch.bfloat16)


@pytest.mark.parametrize("between", ["gather", "ring"])
@pytest.mark.parametrize("variant", ["documents_causal", "learned_sinks", "learned_bias"])
def test_a_node_without_tokens(six: Ranks, variant: str, between: str) -> None:
    check(six, number_of(variant), NONE_ON_ONE_NODE, 2, between, torch.bfloat16)


def parts_of_gradient(group: Any, sums: bool) -> Tensor:
    """The gradient of alibi's slopes, which alone are trained."""
    case = CASES[number_of("alibi")]
    learned = trained(case.parameters())
    q, k, v, grad, _ = dense(torch.float32)
    plan = tesela.distributed.plan(
        "alibi",
        length=LENGTH,
        group=group,
        layout=SIX,
        scheme="nodes",
        machine=Machine(ranks_per_node=2),
    )
    out = tesela.distributed.attention(
        *(plan.shard(each) for each in (q, k, v)), plan=plan, sum_gradients=sums, **learned
    )
    (out * plan.shard(grad)).sum().backward()
    (found,) = (each.grad for each in learned.values())
    assert found is not None
    return found


def test_parts_of_gradients_add_up(six: Ranks) -> None:
    parts = six.run(6, parts_of_gradient, False)
    for whole in six.run(6, parts_of_gradient, True):
        assert (sum(parts) - whole).norm() <= 1e-5 * whole.norm()
    assert not torch.equal(parts[0], whole)


def refuse(group: Any, kv_heads: int, dropout_p: float) -> str:
    plan = tesela.distributed.plan(
        "causal", length=LENGTH, group=group, scheme="nodes", machine=Machine(ranks_per_node=2)
    )
    q, k, v = (plan.shard(each) for each in dense(torch.float32, HEADS, kv_heads)[:3])
    with pytest.raises(tesela.Error) as error:
        tesela.distributed.attention(q, k, v, plan=plan, dropout_p=dropout_p, seed=1)
    return str(error.value)


def test_what_is_refused(six: Ranks) -> None:
    for size, kv_heads, dropout_p, sentence in (
        (2, 2, 0.0, "the scheme is 'nodes', and all 2 ranks are on one node: use scheme='auto'"),
        (3, 2, 0.0, "the scheme is 'nodes', and 3 ranks cannot be divided into nodes of 2"),
        (6, 1, 0.0, "and 1 kv heads cannot be divided among 2 ranks of a node"),
        (6, 2, 0.5, "the scheme is 'nodes', which does not support dropout"),
    ):
        for found in six.run(size, refuse, kv_heads, dropout_p):
            assert sentence in found


def differ(group: Any) -> str:
    size = 3 if group.rank() == 1 else 2
    plan = tesela.distributed.plan(
        "causal", length=LENGTH, group=group, machine=Machine(ranks_per_node=size)
    )
    with pytest.raises(tesela.InvalidArgumentError) as error:
        tesela.distributed.attention(
            *(plan.shard(each) for each in dense(torch.float32)[:3]), plan=plan
        )
    return str(error.value)


def test_ranks_agree_on_the_size_of_a_node(six: Ranks) -> None:
    for found in six.run(6, differ):
        assert "differ in the number of ranks of a node: ranks 0, 2, 3, 4, ... have 2" in found
