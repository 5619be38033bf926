# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Dropout by PyTorch on CUDA. Needs a GPU, and is skipped without one."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the tests of the PyTorch layer need PyTorch")

import tesela  # noqa: E402
import tesela.torch  # noqa: E402
from torch import Tensor  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from torch_dropout_tools import (  # noqa: E402
    CASES,
    SEED,
    STATE,
    WORDS,
    Case,
    check_both_passes,
)
from torch_gradient_tools import gradients, leaves  # noqa: E402
from torch_tools import inputs  # noqa: E402

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="NO GPU: torch.cuda.is_available() is false"
)

BF16, F16 = torch.bfloat16, torch.float16
SIZES = [
    {"queries": 1, "keys": 1},
    {"queries": 37, "keys": 61, "head_dim": 128},
    {"queries": 300, "keys": 301, "kv_heads": 6},
    {"queries": 515, "keys": 300, "head_dim": 128, "kv_heads": 1},
    {"queries": 129, "keys": 257, "head_dim": 72, "head_dim_v": 40},
    {"queries": 200, "keys": 200, "head_dim": 256, "batch": 1},
]


def on_gpu(**sizes: int) -> tuple[Tensor, Tensor, Tensor]:
    return inputs(**sizes, dtype=BF16, device="cuda")  # type: ignore[arg-type]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.variant[:16])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_both_passes(case: Case, sizes: dict[str, int]) -> None:
    check_both_passes(case, on_gpu(**sizes), 0.2, SEED, WORDS)
    check_both_passes(case, on_gpu(**sizes), 0.2, STATE.cuda(), STATE)


@pytest.mark.parametrize("probability", [0.001, 0.5, 1.0])
def test_probabilities(probability: float) -> None:
    dense = inputs(queries=300, keys=301, head_dim=128, dtype=F16, device="cuda")
    check_both_passes(CASES[1], dense, probability, SEED, WORDS)


@pytest.mark.usefixtures("same_bits")
def test_the_same_bits() -> None:
    dense = on_gpu(queries=700, keys=700, head_dim=128)
    grad = torch.ones_like(dense[0])

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return tesela.attention(q, k, v, "causal", dropout_p=0.1, seed=SEED)

    first = gradients(attend, dense, grad)
    for _ in range(20):
        assert all(map(torch.equal, gradients(attend, dense, grad), first))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_generators(device: str) -> None:
    q, k, v = on_gpu()
    generator = torch.Generator(device).manual_seed(3)
    first, second = (tesela.attention(q, k, v, dropout_p=0.3, seed=generator) for _ in range(2))
    generator.manual_seed(3)
    assert torch.equal(tesela.attention(q, k, v, dropout_p=0.3, seed=generator), first)
    assert not torch.equal(first, second)


@pytest.mark.usefixtures("same_bits")
def test_each_replay_of_a_graph_drops_other_pairs() -> None:
    """The graph draws the state from PyTorch's generator."""
    given = leaves(*on_gpu(queries=300, keys=300))
    grad = torch.ones_like(given[0])

    def step() -> tuple[Tensor, ...]:
        out = tesela.attention(*given, "causal", dropout_p=0.3)
        return (out, *torch.autograd.grad(out, given, grad))

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(2):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = step()
    replays = []
    for _ in range(2):
        graph.replay()
        replays.append([each.clone() for each in found])
    assert not any(map(torch.equal, *replays))
    assert all(each.isfinite().all() for replay in replays for each in replay)
    torch.cuda.manual_seed(9)
    graph.replay()
    first = [each.clone() for each in found]
    torch.cuda.manual_seed(9)
    graph.replay()
    assert all(map(torch.equal, first, found))


def test_a_graph_has_the_same_pairs_in_both_passes() -> None:
    """With v = 1, O is the sum of a row's weights and dv that of a column's. Their totals agree."""
    q, k, v = on_gpu(queries=300, keys=300, kv_heads=6)
    given = leaves(q, k, torch.ones_like(v))
    grad = torch.ones_like(q)

    def step() -> tuple[Tensor, Tensor]:
        out = tesela.attention(*given, "causal", dropout_p=0.5)
        return out, torch.autograd.grad(out, given[2], grad)[0]

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out, dv = step()
    totals = []
    for _ in range(3):
        graph.replay()
        rows, columns = out.double()[..., 0].sum(-1), dv.double()[..., 0].sum(-1)
        assert (rows - columns).abs().max() <= 2e-3 * rows.abs().max()
        totals.append(rows)
    assert not torch.equal(totals[0], totals[1])


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_compiled_step(mode: str) -> None:
    """Both passes of a call drop the same pairs; each call drops others."""

    def step(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return tesela.attention(q * 2, k, v, "causal", dropout_p=0.5)

    torch.compiler.reset()
    compiled = torch.compile(step, fullgraph=True, mode=mode)
    q, k, v = on_gpu(queries=300, keys=300, kv_heads=6)
    totals = []
    for _ in range(4):
        torch.compiler.cudagraph_mark_step_begin()
        given = leaves(q, k, torch.ones_like(v))
        out = compiled(*given)
        rows = out.double()[..., 0].sum(-1)
        out.backward(torch.ones_like(q))
        assert given[2].grad is not None
        columns = given[2].grad.double()[..., 0].sum(-1)
        assert (rows - columns).abs().max() <= 2e-3 * rows.abs().max()
        totals.append(rows)
    assert not torch.equal(totals[-1], totals[-2])


@pytest.mark.usefixtures("same_bits")
def test_checkpointing_drops_the_same_pairs() -> None:
    dense = on_gpu(queries=300, keys=300)
    grad = torch.ones_like(dense[0])

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return tesela.attention(q, k, v, "causal", dropout_p=0.3)

    torch.manual_seed(5)
    wanted = gradients(attend, dense, grad)
    torch.manual_seed(5)
    got = gradients(lambda *x: checkpoint(attend, *x, use_reentrant=False), dense, grad)
    assert all(map(torch.equal, wanted, got))
