# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plans of a split sequence: their counts, which rank gets what, and refusals. In one process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tesela
import tesela.distributed
import torch
from distributed_cases import BATCH, CASES, HEADS, KV_HEADS, LENGTH
from gradient_variants import Case
from tesela.distributed import _layout, _plan
from tesela.distributed._machine import Machine, Shape, _end_of_ring, predict, ranks_per_node
from tesela.distributed._positions import Part, Sizes, placed
from tesela.distributed._steps import Step, steps_of
from tesela.distributed._values import is_equal
from torch import Tensor

SIZES = {"batch": BATCH, "heads": HEADS, "kv_heads": KV_HEADS}


def kept_pairs(case: Case, parameters: dict[str, Any]) -> Tensor:
    """[batch, heads, queries, keys]: whether the pair is kept."""
    places = [torch.arange(n) for n in (BATCH, HEADS, LENGTH, LENGTH)]
    b, h, i, j = (
        each.view([-1 if x == y else 1 for y in range(4)]) for x, each in enumerate(places)
    )
    if case.mask is None:
        return torch.ones(BATCH, HEADS, LENGTH, LENGTH, dtype=torch.bool)
    kept: Tensor = case.mask(parameters, b, h, i, j)
    return kept.expand(BATCH, HEADS, LENGTH, LENGTH)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
@pytest.mark.parametrize("cell", [1, 16, 37])
def test_cells(case: Case, cell: int) -> None:
    """A cell with a kept pair never counts as empty. For cells of one pair the counts are exact."""
    parameters = case.parameters()
    plan = tesela.distributed.plan(
        case.variant, length=LENGTH, ranks=3, cell=cell, **SIZES, **parameters
    )
    kept = kept_pairs(case, parameters)
    cells = -(-LENGTH // cell)
    padded = torch.zeros(BATCH, HEADS, cells * cell, cells * cell, dtype=torch.bool)
    padded[:, :, :LENGTH, :LENGTH] = kept
    of_cells = padded.view(BATCH, HEADS, cells, cell, cells, cell)
    some = of_cells.any(5).any(3)
    lengths = torch.full((cells,), cell)
    lengths[-1] = LENGTH - (cells - 1) * cell
    area = lengths[:, None] * lengths[None, :]
    all_of_cell = of_cells.sum((3, 5)) == area
    work = plan.work_of_cells
    has_pairs = some.any(1).any(0)
    assert torch.equal(work > 0, has_pairs), "needed cells count as empty, or empty ones as work"
    # A full cell counts 2 for each head, so that a head that is wrongly called full is found.
    most = (some.int() + all_of_cell.int()).sum((0, 1))
    if cell == 1:
        assert torch.equal(work.long(), most.long())
    assert (work <= 2 * BATCH * HEADS).all()
    for rank, ranges in enumerate(plan.ranges):
        rows = torch.zeros(LENGTH, dtype=torch.bool)
        for begin, end in ranges:
            rows[begin:end] = True
        needed = torch.zeros(LENGTH, dtype=torch.bool)
        for begin, end in plan.needed[rank]:
            needed[begin:end] = True
        of_rank = has_pairs[rows.nonzero()[:, 0] // cell].any(0).repeat_interleave(cell)[:LENGTH]
        assert torch.equal(needed, of_rank), "a rank needs the keys of its cells with pairs"


@pytest.mark.parametrize("name", tesela.library())
def test_texts_with_global_positions(name: str) -> None:
    """Each library text stays valid with global positions, and its parameters do not change."""
    whole = tesela.variant(name)
    part = placed(whole)
    assert part.variant.warnings == ""
    assert [each.name for each in part.variant.parameters][: len(whole.parameters)] == [
        each.name for each in whole.parameters
    ]


@pytest.mark.parametrize(
    ("whole", "part"),
    [
        (
            "i(t: i32[B, Sk]) { mask = t[b, q] == t[b, k] }",
            "i(t: i32[B, Sq], t_k: i32[B, Sk]) { mask = t[b, q] == t_k[b, k] }",
        ),
        (
            "i(t: bool[Sq, Sk], t_k_q: i32 = 0) { mask = t[ q,k] || t[k, q] || t_k_q > 0 }",
            "i(t: bool[Sq, Sk], t_k_q: i32 = 0, t_k_q_: bool[Sk, Sq]) "
            "{ mask = t[ q,k] || t_k_q_[k, q] || t_k_q > 0 }",
        ),
        (
            "i(t: i32[Hkv, Sk], u: i32[N]) { mask = u[t[hkv, q]] > k }",
            "i(t: i32[of_Hkv, Sq], u: i32[N], first_hkv: i32, first_k: i32) "
            "{ mask = u[t[(hkv + first_hkv), q]] > (k + first_k) }",
        ),
        # No views: one tensor is also read at other positions, the other may have a gradient.
        (
            "i(t: i32[Sk]) { mask = t[k] > t[k / 2] }",
            "i(t: i32[of_Sk], first_k: i32) { mask = t[(k + first_k)] > t[(k + first_k) / 2] }",
        ),
        (
            "i(t: f32[Sk]) { score = s + t[k] }",
            "i(t: f32[of_Sk], first_k: i32) { score = s + t[(k + first_k)] }",
        ),
        (
            "i(t: i32[2*Sk]) { mask = t[k] > 0 }",
            "i(t: i32[2*of_Sk], first_k: i32) { mask = t[(k + first_k)] > 0 }",
        ),
    ],
)
def test_captured_tensors_at_positions(whole: str, part: str) -> None:
    """Tensors of i32 and bool that are read at q or k itself are passed as views of the part."""
    found = placed(tesela.variant(f"attention {whole}"))
    assert found.text == f"attention {part}"
    assert found.variant.warnings == ""


def test_views_of_captured_tensors() -> None:
    found = placed(tesela.variant("attention i(t: i32[B, Sk]) { mask = t[b, q] == t[b, k] }"))
    t = torch.arange(20).int().view(1, 20)
    values = found.values({"t": t}, Part(3, 8), Sizes(1, 4, 2, 20, 20), (5, 6))
    assert values["t"].tolist() == [[3, 4, 5, 6, 7]]
    assert values["t_k"].tolist() == [[8, 9, 10, 11, 12, 13]]
    assert values["t"].data_ptr() == t.data_ptr() + 12, "it is copied"


@pytest.mark.parametrize(("length", "cell"), [(512, 16), (500, 16), (1000, 7), (33, 64)])
def test_needs(length: int, cell: int) -> None:
    """Sets of cells, against the square of cells."""
    plan = tesela.distributed.plan(
        "documents_causal", length=length, ranks=3, cell=cell, id=documents(length, 5, 3)
    )
    keeps = plan.work_of_cells > 0
    cells = len(keeps)
    generator = torch.Generator().manual_seed(length)

    def positions_of(found: set[int]) -> set[int]:
        return {at for i in found for at in range(i * cell, min((i + 1) * cell, length))}

    for _ in range(50):
        ends = torch.randint(length, (4,), generator=generator).sort()[0].tolist()
        queries, keys = (ends[0], ends[2] + 1), (ends[1], ends[3] + 1)
        rows = keeps[queries[0] // cell : (queries[1] - 1) // cell + 1]
        needed = set(rows.any(0).nonzero()[:, 0].tolist())
        of = plan.needs.of(queries)
        assert {i for i in range(cells) if of >> i & 1} == needed
        ranges = plan.needs.ranges(of)
        assert {at for each in ranges for at in range(*each)} == positions_of(needed)
        assert len(ranges) == sum(i - 1 not in needed for i in needed)
        kept = sorted(positions_of(needed) & set(range(*keys)))
        first, end = plan.needs.between(queries, keys)
        assert (first, end) == (kept[0], kept[-1] + 1) if kept else first == end
        columns = keeps[:, keys[0] // cell : (keys[1] - 1) // cell + 1].any(1)
        asking = set(columns.nonzero()[:, 0].tolist())
        kept = sorted(positions_of(asking) & set(range(*queries)))
        if kept:
            assert plan.needs.queries_between(queries, keys) == (kept[0], kept[-1] + 1)
        assert plan.needs.which(plan.needs.cells((keys,))) == columns.tolist()
        held = set(range(*queries))
        whole = plan.needs.whole_cells((queries,))
        assert [whole >> i & 1 == 1 for i in range(cells)] == [
            positions_of({i}) <= held for i in range(cells)
        ]


@pytest.mark.parametrize("scheme", ["gather", "ring"])
@pytest.mark.parametrize("layout", ["contiguous", "zigzag", "striped"])
def test_steps(layout: str, scheme: str) -> None:
    """Each row has one first kernel. A rank sends exactly what the other one receives."""
    plan = tesela.distributed.plan(
        "documents_causal",
        length=512,
        ranks=4,
        layout=layout,
        cell=16,
        machine=Machine(launch=0.0),
        id=documents(512, 9, 3),
    )
    sent: dict[tuple[int, int], int] = {}
    received: dict[tuple[int, int], int] = {}
    divided = 0
    for rank in range(4):
        plan.rank = rank
        steps = steps_of(plan, scheme)
        rows = torch.zeros(_layout.tokens(plan.ranges[rank]))
        begun = set()
        for step in steps:
            divided += scheme == "gather" and len(steps) > 1 and not step.receives
            for taker, places in step.sends:
                sent[rank, taker] = sum(place.stop - place.start for place in places)
            for owner, ranges in step.receives:
                received[owner, rank] = _layout.tokens(ranges)
            for each in step.launches:
                assert each.counts_sink == (each.group not in begun)
                assert each.keys.stop <= step.keys
                if each.group not in begun:
                    rows[each.queries] += 1
                begun.add(each.group)
        assert (rows == 1).all()
    assert sent == received
    assert sum(sent.values()) == plan.received.sum()
    assert divided > 0 or scheme == "ring"


def test_queries_that_need_not_wait_are_computed_first() -> None:
    """Ranges are divided if that is worth a launch. Then few of the rank's own keys are copied."""

    def steps(length: int) -> tuple[Step, ...]:
        plan = tesela.distributed.plan(
            "sliding_window", length=length, ranks=2, window=4096, heads=32, kv_heads=8
        )
        plan.rank = 1
        return steps_of(plan, "gather")

    early, late = steps(65536)
    assert (early.keys, early.order) == (32768, ((1, slice(0, 32768)),))
    (launch,) = early.launches
    assert launch.first_q >= 32768 + 4096
    assert launch.queries == slice(launch.first_q - 32768, 32768)
    assert late.launches[0].queries == slice(0, launch.first_q - 32768)
    assert late.keys < 9000
    assert len(steps(8192)) == 1


def test_names_that_are_taken() -> None:
    text = """
    // q and k in a comment; sink = 3
    attention taken(first_q: i32, of_Sk: f32[Sk], const all_k: i32 = 2) {
      let counts_sink = first_q + q * 1e0 > 3.q ? 1 : 0
    }"""
    text = text.replace("3.q", "3.")
    text = text.replace("}", "  mask = counts_sink == 0 && any(i < Sk: of_Sk[i] > k); sink = q }")
    whole = tesela.variant(text)
    part = placed(whole)
    names = [each.name for each in part.variant.parameters]
    assert names == ["first_q", "of_Sk", "all_k", "first_q_", "all_Sk", "first_k", "counts_sink_"]
    assert part.has_sink


def documents(length: int, count: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    ends = torch.sort(torch.randperm(length, generator=generator)[:count])[0]
    return torch.searchsorted(ends, torch.arange(length), right=True).int()[None]


@pytest.mark.parametrize("count", [8, 40, 300])
def test_documents_are_balanced(count: int) -> None:
    """Balance is checked by the tiles that kernels compute, not by the plan's own counts."""
    length, ranks = 131072, 16
    ids = documents(length, count, count)
    plan = tesela.distributed.plan("documents_causal", length=length, ranks=ranks, id=ids)
    told = tesela.variant("documents_causal", id=ids).explain(length=length, target="sm_90")
    kinds = torch.frombuffer(bytearray(told.heads[0].kinds), dtype=torch.uint8)
    kinds = kinds.view(told.rows, told.columns) > 0
    rows = torch.arange(told.rows) * told.block_m
    work = torch.zeros(ranks)
    for rank, ranges in enumerate(plan.ranges):
        for begin, end in ranges:
            work[rank] += kinds[(rows >= begin) & (rows < end)].sum()
    if plan.choice().scheme == "nodes":
        work = work.view(-1, plan.machine.ranks_per_node).sum(1)  # its ranks share a node's work
    assert work.max() <= 1.05 * work.mean(), work
    tokens = [_layout.tokens(each) for each in plan.ranges]
    assert max(tokens) == min(tokens) == length // ranks


def changed_by_numpy(ids: Tensor) -> None:
    ids.numpy()[:, 1:] += 1


def changed_past_autograd(ids: Tensor) -> None:
    ids.data.zero_()


def changed_in_inference(ids: Tensor) -> None:
    with torch.inference_mode():
        ids.add_(torch.arange(LENGTH).int())


@pytest.mark.parametrize("change", [changed_by_numpy, changed_past_autograd, changed_in_inference])
def test_changed_documents(change: Callable[[Tensor], None]) -> None:
    """Also finds changes that PyTorch does not count, because the plan has a copy of the values."""
    with torch.inference_mode(change is changed_in_inference):
        ids = torch.arange(LENGTH).int()[None] // 20
    before = ids.numpy().copy()
    plan = tesela.distributed.plan("documents", length=LENGTH, ranks=2, id=ids)
    digest = plan.digest
    plan.check_values({"id": ids})
    change(ids)
    with pytest.raises(tesela.InvalidArgumentError, match="it was changed in place since"):
        plan.check_values({"id": ids})
    plan.check_values({"id": before})
    with pytest.raises(tesela.InvalidArgumentError, match="its value differs from the one"):
        plan.check_values({"id": ids.clone()})
    del plan.digest  # the digest is cached
    assert plan.digest == digest


def test_other_numbers() -> None:
    """Types may differ, values may not, and no value is rounded before the comparison."""
    plan = tesela.distributed.plan("sliding_window", length=LENGTH, ranks=2, window=70)
    for same in (70, 70.0, np.int64(70), torch.tensor(70), torch.tensor(70.0)):
        plan.check_values({"window": same})
    for other in (70.5, 71, np.float32(70.5), torch.tensor(70.5), None):
        with pytest.raises(tesela.InvalidArgumentError, match="its value differs from the one"):
            plan.check_values({"window": other})
    assert not is_equal(70, 70.5)
    assert not is_equal(torch.tensor(1 << 24), torch.tensor(float((1 << 24) + 2)))
    assert not is_equal(torch.tensor((1 << 24) + 1), torch.tensor(float(1 << 24)))
    assert is_equal(torch.tensor([1.0, torch.nan]), torch.tensor([1.0, torch.nan]))


def test_another_default_device() -> None:
    ids = documents(LENGTH, 5, 1)
    usual = tesela.distributed.plan("documents_causal", length=LENGTH, ranks=3, id=ids)
    with torch.device("meta"):
        plan = tesela.distributed.plan("documents_causal", length=LENGTH, ranks=3, id=ids)
        assert plan.digest == usual.digest
        assert str(plan) == str(usual)
        plan.check_values({"id": ids.clone()})
        assert str(tesela.distributed.plan("causal", length=0, ranks=3))


def test_a_fixed_scheme_is_not_predicted(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def counted(scheme: str, *arguments: Any) -> Any:
        asked.append(scheme)
        return predict(scheme, *arguments)

    monkeypatch.setattr(_plan, "predict", counted)
    shape = Shape()
    plan = tesela.distributed.plan("causal", length=4096, ranks=4, scheme="ring")
    assert plan.scheme_for(shape) == "ring"
    assert asked == []
    assert plan.choice(shape).scheme == "ring"
    assert asked == ["ring"]
    plan = tesela.distributed.plan("causal", length=4096, ranks=4)
    assert plan.scheme_for(shape) == plan.scheme_for(shape) == plan.choice(shape).scheme
    assert asked[1:] == 2 * ["gather", "ring", "heads"]


def test_windows_need_their_neighbours_only() -> None:
    plan = tesela.distributed.plan("sliding_window", length=1 << 17, ranks=16, window=1024)
    assert all(len(ranges) == 1 for ranges in plan.ranges)
    assert plan.received.sum(1).max() == 1024
    assert (plan.received > 0).sum() == 15
    printed = str(plan)
    assert "contiguous (found by search)" in printed
    assert "a model, not a measurement" in printed


def test_causal_is_a_zigzag() -> None:
    plan = tesela.distributed.plan("causal", length=1 << 15, ranks=4)
    assert "zigzag" in plan.layout
    assert plan.imbalance == 1


def test_what_a_step_needs() -> None:
    plan = tesela.distributed.plan("causal", length=1 << 20, ranks=8, heads=32, kv_heads=8)
    schemes = {each.scheme: each for each in plan.predictions()}
    assert set(schemes) == {"gather", "ring", "heads", "nodes"}
    assert schemes.pop("nodes").why == "all 8 ranks are on one node"
    assert all(0.5 < each.efficiency <= 1 for each in schemes.values())
    few = tesela.distributed.plan("causal", length=1 << 20, ranks=8, heads=32, kv_heads=4)
    by_heads = next(each for each in few.predictions() if each.scheme == "heads")
    assert by_heads.efficiency == 0
    assert "4 kv heads cannot be divided among 8 ranks" in by_heads.why


def test_nodes() -> None:
    """Many nodes receive few keys if their ranks divide the heads."""
    sizes = {"heads": 32, "kv_heads": 8}
    plan = tesela.distributed.plan("causal", length=1 << 20, ranks=64, **sizes)
    schemes = {each.scheme: each for each in plan.predictions()}
    assert plan.choice().scheme == "nodes"
    assert schemes["nodes"].seconds < 0.9 * min(
        schemes[each].seconds for each in ("gather", "ring")
    )
    assert 0.5 < schemes["nodes"].efficiency <= 1
    nodes = plan.of_nodes
    assert nodes.ranks == 8
    assert _layout.tokens(nodes.ranges[3]) == 8 * _layout.tokens(plan.ranges[24])
    assert float(nodes.pairs.sum()) == pytest.approx(float(plan.pairs.sum()))
    own = tesela.distributed.plan("causal", length=1 << 20, ranks=64, **sizes)
    own.rank = 27
    assert own.of_nodes.rank == 3
    assert list(own.of_nodes.members) == list(range(3, 64, 8))
    # Dropout's pairs depend on the number of a head among all.
    assert plan.scheme_for(plan.shape) == "nodes"
    assert plan.scheme_for(plan.shape, drops=True) in ("gather", "ring")
    reasons = {
        ("causal", 12, 8): "12 ranks cannot be divided into nodes of 8",
        ("causal", 16, 4): "4 kv heads cannot be divided among 8 ranks of a node",
    }
    for (variant, ranks, kv_heads), why in reasons.items():
        other = tesela.distributed.plan(
            variant, length=1 << 15, ranks=ranks, heads=32, kv_heads=kv_heads
        )
        assert next(each.why for each in other.predictions() if each.scheme == "nodes") == why


def test_totals() -> None:
    """Sums over the cells of ranks, against sums over single positions."""
    length, cell = 90, 8
    ranges = [[(0, 5), (40, 60)], [(5, 33), (88, 90)], [], [(33, 40), (60, 88)]]
    plan = tesela.distributed.plan(
        "documents_causal", length=length, ranks=4, cell=cell, layout=ranges, id=documents(90, 4, 3)
    )
    work = plan.work_of_cells.double()
    at = torch.arange(length) // cell
    of_positions = work[at][:, at]
    holds = torch.zeros(4, length, dtype=torch.float64)
    for rank, each in enumerate(ranges):
        for begin, end in each:
            holds[rank, begin:end] = 1
    torch.testing.assert_close(plan.pairs, holds @ of_positions @ holds.T / plan._mask.full)
    needed = (holds @ (of_positions > 0).double() > 0).double()
    torch.testing.assert_close(plan.received, (needed @ holds.T).fill_diagonal_(0))
    touches = ((of_positions > 0).double() @ holds.T > 0).double()
    torch.testing.assert_close(plan.touched, holds @ touches)
    launches = []
    for each, needs in zip(ranges, plan.needed, strict=True):
        pairs = [(queries, keys) for queries in each for keys in needs]
        kept = [float(of_positions[slice(*queries), slice(*keys)].sum()) for queries, keys in pairs]
        launches.append(max(len(each), sum(one > 0 for one in kept)))
    assert plan.launches.tolist() == launches
    assert max(launches) > 1


def test_a_rank_of_a_ring_waits_for_others() -> None:
    """The times of three ranks, written out: a slow rank delays those with which it exchanges."""
    computing = torch.tensor([[1.0, 1.0, 1.0], [5.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
    arriving = torch.tensor([[0.0, 2.0, 2.0], [0.0, 2.0, 2.0], [0.0, 2.0, 2.0]])
    # The keys of step 1 are there at 2, and rank 1 begins step 1 at 5. The keys of step 2 come from
    # the next rank: rank 0 waits for rank 1 until 7. Rank 2 waits until it has sent to rank 1.
    assert _end_of_ring(computing, arriving).tolist() == [8.0, 8.0, 8.0]
    alone = torch.zeros(3, 3)
    assert _end_of_ring(computing, alone).tolist() == [3.0, 7.0, 3.0]


def test_the_search_looks_at_nodes() -> None:
    """Each node has documents of the same lengths: the nodes are even, but not the ranks."""
    length = 1 << 18
    sizes = {"length": length, "ranks": 64, "heads": 32, "kv_heads": 8}
    of_node = torch.tensor([0, 0, 0, 0, 1, 1, 2, 3]).repeat_interleave(length // 64)
    ids = (of_node.repeat(8) + 4 * (torch.arange(length) // (length // 8))).int()[None]
    plan = tesela.distributed.plan("documents_causal", **sizes, scheme="nodes", id=ids)
    assert "contiguous" in plan.layout
    assert plan.imbalance > 1.5
    assert plan.of_nodes.imbalance == 1
    assert "gather: " in plan.choice().why
    assert " 0 ms of sending" in plan.choice().why
    assert "the busiest node has 1.000 of the mean" in str(plan)
    for scheme in ("gather", "ring", "auto"):
        other = tesela.distributed.plan("documents_causal", **sizes, scheme=scheme, id=ids)
        assert other.imbalance < 1.05


@pytest.mark.parametrize(
    ("ranks", "local", "expected"),
    [
        (range(16), "8", 8),
        (range(12), "8", 8),
        (range(4), "8", 4),
        (range(0, 16, 2), "8", 4),
        (range(0, 16, 8), "8", 1),
        (range(4, 20), "8", 1),
        ([0, 8, 1, 9], "8", 1),
        (range(16), None, None),
        (range(16), "many", None),
        (range(16), "0", None),
    ],
)
def test_ranks_of_a_node(ranks: Any, local: str | None, expected: int | None) -> None:
    assert ranks_per_node(list(ranks), local) == expected


def test_documents_stay_on_few_nodes() -> None:
    """Cells are dealt to nodes first. So a node needs few keys of others, and has its work."""
    sizes = {"length": 1 << 20, "ranks": 64, "heads": 32, "kv_heads": 8}
    ids = documents(1 << 20, 16, 3)
    plan = tesela.distributed.plan("documents_causal", **sizes, id=ids)
    alone = tesela.distributed.plan(
        "documents_causal", **sizes, id=ids, layout="near", machine=Machine(ranks_per_node=64)
    )
    assert "near" in plan.layout
    assert plan.choice().scheme == "nodes"
    assert plan.of_nodes.imbalance < 1.03
    size = Machine().ranks_per_node
    spread = [
        _layout.joined([each for rank in alone.ranges[first : first + size] for each in rank])
        for first in range(0, 64, size)
    ]
    cells = {"layout": spread, "cell": plan.cell}
    many = tesela.distributed.plan(
        "documents_causal", **{**sizes, "ranks": 8}, id=ids, **cells
    ).received.sum()
    assert float(plan.of_nodes.received.sum()) < 0.8 * float(many)


@pytest.mark.parametrize("length", [0, 1, 5])
def test_fewer_tokens_than_ranks(length: int) -> None:
    plan = tesela.distributed.plan("causal", length=length, ranks=7)
    assert sum(map(_layout.tokens, plan.ranges)) == length
    assert str(plan)


@pytest.mark.parametrize(
    ("ranges", "sentence"),
    [
        ([[(0, 4)]], "has the ranges of 1 ranks, the group has 2"),
        ([[(0, 4)], [(5, 10)]], "no rank has the tokens 4 to 4"),
        ([[(0, 6)], [(5, 10)]], "two ranks have the tokens 5 to 5"),
        ([[(0, 6)], [(6, 9)]], "no rank has the tokens 9 to 9"),
        ([[(0, 6)], [(6, 11)]], "rank 1 is given the range (6, 11)"),
    ],
)
def test_wrong_ranges(ranges: Any, sentence: str) -> None:
    with pytest.raises(tesela.InvalidArgumentError) as error:
        tesela.distributed.plan("causal", length=10, ranks=2, layout=ranges)
    assert sentence in str(error.value)


def test_refused() -> None:
    plan = tesela.distributed.plan
    with pytest.raises(tesela.InvalidArgumentError, match="computed from 'id', which has no value"):
        plan("documents", length=10, ranks=2)
    with pytest.raises(tesela.InvalidArgumentError, match=r"'id' has the shape \(1, 9\)"):
        plan("documents", length=10, ranks=2, id=torch.zeros(1, 9, dtype=torch.int32))
    with pytest.raises(tesela.InvalidArgumentError, match=r"with 2 axes: \[B, Sk\] of"):
        plan("documents", length=10, ranks=2, id=torch.zeros(10, dtype=torch.int32))
    with pytest.raises(tesela.InvalidArgumentError, match=r"'id' is torch\.float32, and"):
        plan("documents", length=10, ranks=2, id=torch.zeros(1, 10))
    with pytest.raises(tesela.InvalidArgumentError, match="there is no process group"):
        plan("causal", length=10)
    with pytest.raises(tesela.InvalidArgumentError, match="the layout is 'zag'"):
        plan("causal", length=10, ranks=2, layout="zag")
    with pytest.raises(tesela.InvalidArgumentError, match="the scheme is 'tree'"):
        plan("causal", length=10, ranks=2, scheme="tree")
    with pytest.raises(tesela.InvalidArgumentError, match="ranks_per_node is 0"):
        Machine(ranks_per_node=0)
    with pytest.raises(tesela.InvalidArgumentError, match="made without a process group"):
        plan("causal", length=10, ranks=2).shard(torch.zeros(1, 1, 10, 8))
