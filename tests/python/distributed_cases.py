# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Library variants for a sequence that is split, each with a reference in PyTorch.

Also their tensors, and the call whose results the tests compare.
"""

from __future__ import annotations

from typing import Any

import tesela
import tesela.distributed
import torch
from gradient_variants import Case, Parameters, reference_with_lse
from tesela.distributed._machine import Machine
from torch import Tensor
from torch_gradient_tools import check as check_gradients
from torch_gradient_tools import check_parameter
from torch_tools import check, check_lse, poisoned, random

LENGTH = 150
BATCH, HEADS, KV_HEADS, HEAD_DIM = 2, 4, 2, 16

UNEVEN: dict[int, list[list[tuple[int, int]]]] = {
    2: [[(0, 31), (100, 101)], [(31, 100), (101, LENGTH)]],
    3: [[(140, LENGTH), (0, 1)], [], [(1, 140)]],
    4: [[], [(0, 33), (34, 90)], [(33, 34), (90, 91)], [(91, LENGTH)]],
}
"""Ranges with arbitrary ends. With three and four ranks, one rank has no token."""


def _uniform(*shape: int) -> Tensor:
    return random(*shape, seed=11, dtype=torch.float32).abs()


def _documents() -> dict[str, Any]:
    ends = torch.tensor([[3, 40, 41, 110], [60, 61, 90, 149]])
    return {"id": torch.searchsorted(ends, torch.arange(LENGTH).repeat(2, 1), right=True).int()}


def _causal(_: Parameters, b: Any, h: Any, q: Any, k: Any) -> Any:
    return q >= k


def _random_clusters() -> dict[str, Any]:
    generator = torch.Generator().manual_seed(5)
    return {"cluster": torch.randint(4, (BATCH, HEADS, LENGTH), generator=generator).int()}


CASES = [
    Case("full", "full"),
    Case("causal", "causal", mask=_causal),
    Case(
        "sliding_window",
        "sliding_window",
        parameters=lambda: {"window": 9},
        mask=lambda p, b, h, q, k: (q >= k) & (q - k < p["window"]),
    ),
    Case(
        "documents_causal",
        "documents_causal",
        parameters=_documents,
        mask=lambda p, b, h, q, k: (q >= k) & (p["id"][b, q] == p["id"][b, k]),
    ),
    Case(
        "alibi",
        "alibi",
        parameters=lambda: {"slope": _uniform(HEADS)},
        mask=_causal,
        score=lambda p, s, b, h, q, k: s + p["slope"][h].to(s) * (k - q),
    ),
    Case(
        "prefix_lm",
        "prefix_lm",
        parameters=lambda: {"prefix": torch.tensor([70, 0]).int()},
        mask=lambda p, b, h, q, k: (k < p["prefix"][b]) | (q >= k),
    ),
    Case(
        "softcap",
        "softcap",
        parameters=lambda: {"cap": 2.0},
        mask=_causal,
        score=lambda p, s, b, h, q, k: p["cap"] * torch.tanh(s / p["cap"]),
    ),
    Case(
        "streaming",
        "streaming",
        parameters=lambda: {"sinks": 3, "window": 20},
        mask=lambda p, b, h, q, k: (q >= k) & ((k < p["sinks"]) | (q - k < p["window"])),
    ),
    Case(
        "learned_sinks",
        "learned_sinks",
        parameters=lambda: {"logit": _uniform(HEADS).bfloat16(), "window": 12},
        mask=lambda p, b, h, q, k: (q >= k) & (q - k < p["window"]),
        sink=lambda p: p["logit"],
    ),
    Case(
        "relative_bias",
        "relative_bias",
        parameters=lambda: {"table": _uniform(HEADS, 33), "reach": 16},
        score=lambda p, s, b, h, q, k: s + p["table"][h, (k - q).clamp(-16, 16) + 16].to(s),
    ),
    Case(
        "clusters",
        "clusters",
        parameters=_random_clusters,
        mask=lambda p, b, h, q, k: (q >= k) & (p["cluster"][b, h, q] == p["cluster"][b, h, k]),
    ),
    Case(
        "learned_bias",
        "learned_bias",
        parameters=lambda: {"bias": random(HEADS, LENGTH, LENGTH, seed=6, dtype=torch.bfloat16)},
        score=lambda p, s, b, h, q, k: s + p["bias"][h, q, k].to(s),
    ),
    Case(
        "forgetting",
        "forgetting",
        parameters=lambda: {"gate": _uniform(BATCH, HEADS, LENGTH)},
        mask=_causal,
        score=lambda p, s, b, h, q, k: s - p["gate"][b, h, k].to(s),
    ),
    Case(
        "key_padding, a batch without keys",
        "key_padding",
        parameters=lambda: {
            "ignored": torch.stack([torch.arange(LENGTH) % 7 > 2, torch.ones(LENGTH).bool()])
        },
        mask=lambda p, b, h, q, k: ~p["ignored"][b, k],
    ),
    Case(
        "dilated_segments, which tells heads apart",
        "dilated_segments",
        parameters=lambda: {"segment": 40, "dilation": 2},
        mask=lambda p, b, h, q, k: (
            (q >= k)
            & (q // 40 == k // 40)
            & (torch.as_tensor(q % 2 == h % 2))
            & (torch.as_tensor(k % 2 == h % 2))
        ),
    ),
    Case(
        "causal_bottom_right, by the whole length",
        "causal_bottom_right",
        mask=_causal,
    ),
    Case("off_by_one", "off_by_one", mask=_causal, sink=lambda p: torch.zeros(HEADS)),
]


def dense(dtype: torch.dtype, heads: int = HEADS, kv_heads: int = KV_HEADS) -> list[Tensor]:
    """q, k, v, and the gradients of the result and of the logarithms."""
    shapes = ((heads, HEAD_DIM), (kv_heads, HEAD_DIM), (kv_heads, HEAD_DIM), (heads, HEAD_DIM))
    found = [
        random(BATCH, h, LENGTH, d, seed=seed, dtype=dtype)
        for seed, (h, d) in enumerate(shapes, start=1)
    ]
    return [*found, random(BATCH, heads, LENGTH, seed=9, dtype=torch.float32)]


def number_of(variant: str) -> int:
    return next(number for number, case in enumerate(CASES) if case.variant == variant)


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
    machine: Machine | None = None,
    cell: int | None = None,
    between: str | None = None,
) -> list[Tensor]:
    """On each rank: the gathered result, logarithms and gradients, and those of parameters.

    ``between`` is how keys move between nodes; None: as predicted to be fastest.
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
        machine=machine,
        cell=cell,
        **{**parameters, **learned},
    )
    if between is not None:
        plan.scheme_between_nodes = lambda shape: between  # type: ignore[method-assign]
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
