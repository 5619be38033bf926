# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A thousand launches of the gradients on CUDA have the same bits: eager launches and graphs, on
three streams at once, with other work beside them. Needs a GPU, and is skipped without one.

Results are compared on the device. Outputs are full of NaN before a launch, so unwritten ones
are found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

torch = pytest.importorskip("torch", reason="the tests of the PyTorch layer need PyTorch")

import tesela  # noqa: E402
import tesela.torch  # noqa: E402
from torch import Tensor  # noqa: E402
from torch_gradient_tools import leaves  # noqa: E402
from torch_tools import inputs, poisoned, random  # noqa: E402

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="NO GPU: torch.cuda.is_available() is false"
)

STREAMS, EAGER, CAPTURED, REPLAYS = 3, 420, 10, 20
assert EAGER + STREAMS * CAPTURED * REPLAYS >= 1000
LENGTH = 900  # several blocks; not a multiple of any block


class Case(NamedTuple):
    """A variant, and the names of the parameters that have gradients."""

    name: str
    variant: str
    head_dim: int
    parameters: Callable[[], dict[str, Any]] = dict
    trained: Sequence[str] = ()
    shape: Mapping[str, int] = MappingProxyType({})
    dropout_p: float = 0


def _numbers(*shape: int) -> Tensor:
    return random(*shape, seed=7, dtype=torch.float32, device="cuda")


def _documents() -> dict[str, Any]:
    ids = torch.arange(LENGTH, device="cuda", dtype=torch.int32)
    return {"id": torch.stack([ids // 130, ids // 300])}


def _prefix() -> dict[str, Any]:
    return {"prefix": torch.arange(10, device="cuda", dtype=torch.int32) * 50}


CASES = [
    Case("causal, 64", "causal", 64),
    Case("causal, 128", "causal", 128),
    Case("full, 256", "full", 256),
    # Heads at the end of a launch have another order than the others (tile.work).
    Case("causal, many heads", "causal", 96, shape={"batch": 8, "heads": 8, "kv_heads": 8}),
    Case("causal, dropout", "causal", 128, shape={"batch": 5, "heads": 8}, dropout_p=0.2),
    Case("prefix, few queries", "prefix_lm", 64, _prefix, shape={"batch": 10, "queries": 500}),
    Case("documents", "documents_causal", 128, _documents),
    Case("softcap", "softcap", 64, lambda: {"cap": 5.0}),
    Case("slopes", "alibi", 64, lambda: {"slope": _numbers(6).abs() / 8}, ["slope"]),
    Case("distances", "relative_bias", 128, lambda: {"table": _numbers(6, 257)}, ["table"]),
    Case("buckets", "t5_bias", 64, lambda: {"table": _numbers(6, 32)}, ["table"]),
    Case("gates of keys", "forgetting", 64, lambda: {"gate": _numbers(2, 6, LENGTH)}, ["gate"]),
    Case(
        "sinks",
        "learned_sinks",
        64,
        lambda: {"logit": _numbers(6).bfloat16(), "window": 200},
        ["logit"],
    ),
    Case(
        "a bias of pairs over all batches",
        "attention biased(bias: f32[H, Sq, Sk]) { score = s + bias[h, q, k] }",
        64,
        lambda: {"bias": _numbers(6, LENGTH, LENGTH)},
        ["bias"],
    ),
    Case(
        "pairs that share elements",
        "attention blocks(t: f32[N, M]) { mask = q >= k\n score = s + t[q / 64, k / 64] }",
        64,
        lambda: {"t": _numbers(15, 15)},
        ["t"],
    ),
]


class Gradients:
    """The launches of one case. On each stream there is a forward pass, whose graph is kept."""

    def __init__(self, case: Case) -> None:
        shape = {"queries": LENGTH, "keys": LENGTH, "head_dim": case.head_dim, **case.shape}
        dense = inputs(**shape, dtype=torch.bfloat16, device="cuda")
        parameters = case.parameters()
        trained = {name: parameters[name].requires_grad_() for name in case.trained}
        self.given = [*leaves(*dense), *trained.values()]
        self.grad = random(*dense[0].shape, seed=4, dtype=torch.bfloat16, device="cuda")
        self.attend = lambda: tesela.attention(
            *self.given[:3],
            case.variant,
            dropout_p=case.dropout_p,
            seed=11 if case.dropout_p else None,
            **{**parameters, **trained},
        )
        self.names = ["q", "k", "v", *case.trained]

    def of(self, out: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(out, self.given, self.grad, retain_graph=True)


def differing(found: Sequence[Tensor], first: Sequence[Tensor]) -> Tensor:
    """How many elements of each tensor have other bits. NaN with the same bits are equal."""
    words = {2: torch.int16, 4: torch.int32}
    return torch.stack(
        [
            (a.view(words[a.element_size()]) != b.view(words[b.element_size()])).sum()
            for a, b in zip(found, first, strict=True)
        ]
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_thousand_launches_have_the_same_bits(case: Case) -> None:
    gradients = Gradients(case)
    with poisoned():
        first = gradients.of(gradients.attend())
        assert not any(each.isnan().any() for each in first)
        streams = [torch.cuda.Stream() for _ in range(STREAMS)]
        noise = torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16)
        counts = [torch.zeros(len(first), dtype=torch.int64, device="cuda") for _ in streams]
        broken = [torch.zeros(len(first), dtype=torch.int64, device="cuda") for _ in streams]
        torch.cuda.synchronize()
        outs = []
        for stream in streams:  # the backward pass runs on the forward pass's stream
            with torch.cuda.stream(stream):
                outs.append(gradients.attend())
        torch.cuda.synchronize()

        def launch(which: int, out: Tensor) -> None:
            found = differing(gradients.of(out), first)
            counts[which] += found
            broken[which] += found != 0

        for turn in range(EAGER):
            which = turn % STREAMS
            noise @ noise
            with torch.cuda.stream(streams[which]):
                launch(which, outs[which])
        torch.cuda.synchronize()

        graphs = []
        for which, stream in enumerate(streams):
            graphs.append(torch.cuda.CUDAGraph())
            with torch.cuda.graph(graphs[-1], stream=stream):
                out = gradients.attend()
                for _ in range(CAPTURED):
                    launch(which, out)
        for _ in range(REPLAYS):
            noise @ noise
            for graph, stream in zip(graphs, streams, strict=True):
                with torch.cuda.stream(stream):
                    graph.replay()
        torch.cuda.synchronize()

    launches = EAGER + STREAMS * CAPTURED * REPLAYS
    for x, name in enumerate(gradients.names):
        wrong = sum(int(each[x]) for each in broken)
        elements = sum(int(each[x]) for each in counts)
        assert wrong == 0, f"{wrong} of {launches} launches, d{name}: {elements} elements differ"
    # The comparison must notice unwritten results.
    unwritten = [torch.full_like(each, torch.nan) for each in first]
    assert (differing(unwritten, first) == torch.tensor([x.numel() for x in first]).cuda()).all()
