# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Variants whose gradients are tested, each with a reference in plain PyTorch, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor

Parameters = Mapping[str, Any]


class Case(NamedTuple):
    """A variant, and the same computation with functions of PyTorch.

    Attributes:
        name: the name in messages.
        variant: the name of a library variant, or a text.
        sizes: the arguments of `torch_tools.inputs`.
        parameters: a function that makes the values of the parameters.
        mask: a function of (parameters, b, h, q, k); true if a pair is kept.
        score: a function of (parameters, s, b, h, q, k).
        sink: a function of (parameters); a logit for each head.
    """

    name: str
    variant: str
    sizes: Mapping[str, int] = MappingProxyType({})
    parameters: Callable[[], dict[str, Any]] = dict
    mask: Callable[..., Any] | None = None
    score: Callable[..., Any] | None = None
    sink: Callable[..., Tensor] | None = None


def reference(
    q: Tensor, k: Tensor, v: Tensor, case: Case, parameters: Parameters, scale: float | None = None
) -> Tensor:
    """Attention with PyTorch's own operations. A row without keys is 0."""
    return reference_with_lse(q, k, v, case, parameters, scale)[0]


def reference_with_lse(
    q: Tensor, k: Tensor, v: Tensor, case: Case, parameters: Parameters, scale: float | None = None
) -> tuple[Tensor, Tensor]:
    """The result and the logarithms. The logarithm of a row without keys is -inf without a
    gradient."""
    batch, heads, queries, head_dim = q.shape
    shared = heads // k.shape[1]
    k, v = (each.repeat_interleave(shared, 1) for each in (k, v))
    s = q @ k.mT * (head_dim**-0.5 if scale is None else scale)
    places = [torch.arange(n, device=q.device) for n in (batch, heads, queries, k.shape[2])]
    b, h, i, j = (
        each.view([-1 if x == y else 1 for y in range(4)]) for x, each in enumerate(places)
    )
    if case.score is not None:
        s = case.score(parameters, s, b, h, i, j)
    if case.mask is not None:
        s = s.masked_fill(~case.mask(parameters, b, h, i, j).expand_as(s), -math.inf)
    if case.sink is not None:
        sink = case.sink(parameters).to(q).view(1, -1, 1, 1).expand(batch, -1, queries, 1)
        terms = torch.cat([s, sink], -1)
        return terms.softmax(-1)[..., :-1] @ v, terms.logsumexp(-1)
    is_empty = s.isneginf().all(-1, keepdim=True)
    terms = torch.where(is_empty, 0.0, s)
    p = torch.where(is_empty, 0.0, terms.softmax(-1))
    return p @ v, torch.where(is_empty.squeeze(-1), -math.inf, terms.logsumexp(-1))


def reference_gradients(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    grad: Tensor,
    case: Case,
    parameters: Parameters,
    scale: float | None = None,
) -> tuple[Tensor, ...]:
    """dq, dk and dv in float64."""
    given = [each.detach().double().requires_grad_() for each in (q, k, v)]
    out = reference(*given, case, parameters, scale)
    return torch.autograd.grad(out, given, grad.double())


def _random(*shape: int, seed: int = 7) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _causal(_: Parameters, b: Any, h: Any, q: Any, k: Any) -> Any:
    return q >= k


def _documents() -> dict[str, Any]:
    ids = torch.stack([torch.arange(61) // 9, torch.arange(61) // 20])
    return {"id": ids.int()}


def _t5(p: Parameters, s: Tensor, b: Any, h: Any, q: Any, k: Any) -> Tensor:
    distance = (k - q).abs()
    ratio = (distance.clamp_min(1).float() / 8).log() / math.log(128 / 8)
    far = (8 + (ratio * 8).int()).clamp_max(15)
    bucket = torch.where(k > q, 16, 0) + torch.where(distance < 8, distance, far)
    return s + p["table"][h, bucket].to(s)


_SQUARE = {"queries": 61, "keys": 61}

CASES = [
    Case("full", "full"),
    Case("causal", "causal", {"queries": 61, "keys": 37}, mask=_causal),
    Case(
        "sliding_window",
        "sliding_window",
        {"queries": 150, "keys": 201},
        lambda: {"window": 17},
        mask=lambda p, b, h, q, k: (q >= k) & (q - k < p["window"]),
    ),
    Case(
        "causal_bottom_right, rows without keys",
        "causal_bottom_right",
        {"queries": 61, "keys": 37},
        mask=lambda p, b, h, q, k: q + 37 - 61 >= k,
    ),
    Case(
        "documents_causal",
        "documents_causal",
        _SQUARE,
        _documents,
        mask=lambda p, b, h, q, k: (q >= k) & (p["id"][b, q] == p["id"][b, k]),
    ),
    Case(
        "key_padding, a batch without keys",
        "key_padding",
        _SQUARE,
        lambda: {"ignored": torch.stack([torch.arange(61) % 3 == 1, torch.ones(61).bool()])},
        mask=lambda p, b, h, q, k: ~p["ignored"][b, k],
    ),
    Case(
        "prefix_lm",
        "prefix_lm",
        _SQUARE,
        lambda: {"prefix": torch.tensor([20, 1], dtype=torch.int32)},
        mask=lambda p, b, h, q, k: (k < p["prefix"][b]) | (q >= k),
    ),
    Case(
        "alibi",
        "alibi",
        {"queries": 61, "keys": 61, "head_dim": 64, "head_dim_v": 40},
        lambda: {"slope": _random(6).abs() / 8},
        mask=_causal,
        score=lambda p, s, b, h, q, k: s + p["slope"][h] * (k - q),
    ),
    Case(
        "softcap",
        "softcap",
        _SQUARE,
        lambda: {"cap": 1.5},
        mask=_causal,
        score=lambda p, s, b, h, q, k: p["cap"] * (s / p["cap"]).tanh(),
    ),
    Case(
        "relative_bias",
        "relative_bias",
        {"queries": 37, "keys": 61, "kv_heads": 6},
        lambda: {"table": _random(6, 33)},
        score=lambda p, s, b, h, q, k: s + p["table"][h, (k - q).clamp(-16, 16) + 16],
    ),
    Case("t5_bias", "t5_bias", _SQUARE, lambda: {"table": _random(6, 32)}, score=_t5),
    Case(
        "forgetting",
        "forgetting",
        _SQUARE,
        lambda: {"gate": _random(2, 6, 61)},
        mask=_causal,
        score=lambda p, s, b, h, q, k: s - p["gate"][b, h, k],
    ),
    Case(
        "scalable_softmax",
        "scalable_softmax",
        _SQUARE,
        lambda: {"factor": _random(6)},
        mask=_causal,
        score=lambda p, s, b, h, q, k: s * p["factor"][h] * (q + 1.0).log(),
    ),
    Case(
        "learned_sinks",
        "learned_sinks",
        _SQUARE,
        lambda: {"logit": _random(6).bfloat16(), "window": 20},
        mask=lambda p, b, h, q, k: (q >= k) & (q - k < 20),
        sink=lambda p: p["logit"],
    ),
    Case(
        "off_by_one",
        "off_by_one",
        {"queries": 61, "keys": 37},
        mask=_causal,
        sink=lambda p: torch.zeros(6),
    ),
    Case(
        "a sink, rows without keys",
        "attention late(z: f32[H]) { mask = q >= 20 && q >= k\n sink = z[h] }",
        _SQUARE,
        lambda: {"z": _random(6)},
        mask=lambda p, b, h, q, k: (q >= 20) & (q >= k),
        sink=lambda p: p["z"],
    ),
    Case(
        "a score with a square, a maximum and a choice",
        "attention odd(t: bf16[H, Sk]) { score = q > k ? s * s - t[h, k] : max(s, 0.5) }",
        {"queries": 70, "keys": 129},
        lambda: {"t": _random(6, 129).bfloat16()},
        score=lambda p, s, b, h, q, k: torch.where(
            q > k, s * s - p["t"][h, k].to(s), s.clamp_min(0.5)
        ),
    ),
    Case(
        "a mask of bools",
        "boolean_mask",
        _SQUARE,
        lambda: {"kept": _random(61, 61) > 0},
        mask=lambda p, b, h, q, k: p["kept"][q, k],
    ),
    Case(
        "a const window",
        "attention local(const reach: i32 = 4) { mask = abs(q - k) <= reach }",
        {"queries": 129, "keys": 130},
        lambda: {"reach": 6},
        mask=lambda p, b, h, q, k: (q - k).abs() <= 6,
    ),
    Case(
        "a reduction",
        "attention chosen(chosen: i32[N]) { mask = any(i < 3: chosen[i] == k) || q == k }",
        _SQUARE,
        lambda: {"chosen": torch.tensor([3, 50, 17], dtype=torch.int32)},
        mask=lambda p, b, h, q, k: (k == 3) | (k == 50) | (k == 17) | (q == k),
    ),
]


def _is_float(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _features(p: Parameters, s: Tensor, b: Any, h: Any, q: Any, k: Any) -> Tensor:
    return s + torch.einsum("hiq,hik->hqk", p["a"].to(s), p["c"].to(s))


PARAMETER_CASES = [
    Case(
        "a table of distances",
        "attention distances(table: f32[H, 2*Sk-1]) "
        "{ mask = q >= k\n score = s + table[h, k - q + Sk - 1] }",
        _SQUARE,
        lambda: {"table": _random(6, 121)},
        mask=_causal,
        score=lambda p, s, b, h, q, k: s + p["table"][h, k - q + 60],
    ),
    Case(
        "a bias of pairs and heads",
        "attention biased(bias: f32[H, Sq, Sk]) { mask = q >= k\n score = s + bias[h, q, k] }",
        {"queries": 70, "keys": 133, "batch": 3},
        lambda: {"bias": _random(6, 70, 133)},
        mask=_causal,
        score=lambda p, s, b, h, q, k: s + p["bias"][h, q, k],
    ),
    Case(
        "a bias in bfloat16, by a product",
        "attention biased(bias: bf16[B, H, Sq, Sk]) { score = s * bias[b, h, q, k] }",
        _SQUARE,
        lambda: {"bias": _random(2, 6, 61, 61).bfloat16()},
        score=lambda p, s, b, h, q, k: s * p["bias"][b, h, q, k].to(s),
    ),
    Case(
        "a bias of pairs",
        "attention biased(bias: f32[Sk, Sq]) { score = s + 2 * bias[k, q] }",
        {"queries": 70, "keys": 133},
        lambda: {"bias": _random(133, 70)},
        score=lambda p, s, b, h, q, k: s + 2 * p["bias"][k, q],
    ),
    Case(
        "a bias of key heads",
        "attention biased(bias: f32[B, Hkv, Sq, Sk]) { score = s + bias[b, hkv, q, k] }",
        {"queries": 33, "keys": 65},
        lambda: {"bias": _random(2, 2, 33, 65)},
        score=lambda p, s, b, h, q, k: s + p["bias"][b, h // 3, q, k],
    ),
    Case(
        "a bias that is read twice",
        "attention biased(bias: f32[Sq, Sk]) { score = s + bias[q, k] * bias[k, q] }",
        _SQUARE,
        lambda: {"bias": _random(61, 61)},
        score=lambda p, s, b, h, q, k: s + p["bias"][q, k] * p["bias"][k, q],
    ),
    Case(
        "a bias smaller than the lengths",
        "attention biased(bias: f32[N, M]) { score = s + bias[q, k] }",
        _SQUARE,
        lambda: {"bias": _random(20, 17)},
        score=lambda p, s, b, h, q, k: s + p["bias"][q.clamp_max(19), k.clamp_max(16)],
    ),
    Case(
        "numbers of queries, keys and batches",
        "attention numbers(a: f32[H, Sq], c: f32[B, Sk], e: f32[B]) "
        "{ mask = q >= k\n score = s * a[h, q] + c[b, k] - e[b] * k }",
        _SQUARE,
        lambda: {"a": _random(6, 61), "c": _random(2, 61), "e": _random(2) / 8},
        mask=_causal,
        score=lambda p, s, b, h, q, k: s * p["a"][h, q] + p["c"][b, k] - p["e"][b] * k,
    ),
    Case(
        "a read at what another tensor says",
        "attention nested(t: f32[H, N], group: i32[Sk]) { score = s + t[h, group[k]] * q }",
        _SQUARE,
        lambda: {"t": _random(6, 4) / 16, "group": (torch.arange(61) * 7 % 4).int()},
        score=lambda p, s, b, h, q, k: s + p["t"][h, p["group"][k].long()] * q,
    ),
    Case(
        "sums of products",
        "attention features(a: f32[H, N, Sq], c: f32[H, N, Sk]) "
        "{ score = s + sum(i < N: a[h, i, q] * c[h, i, k]) }",
        _SQUARE,
        lambda: {"a": _random(6, 3, 61), "c": _random(6, 3, 61, seed=8)},
        score=_features,
    ),
    Case(
        "scalars",
        "attention scalars(cap: f32, lift: f32 = 2) "
        "{ mask = q >= k\n score = cap * tanh(s / cap) + max(lift * s, 0) }",
        _SQUARE,
        lambda: {"cap": torch.tensor(1.5), "lift": torch.tensor(0.5)},
        mask=_causal,
        score=lambda p, s, b, h, q, k: (
            p["cap"] * (s / p["cap"]).tanh() + (p["lift"] * s).clamp_min(0)
        ),
    ),
    Case(
        "a sink of several parameters, rows without keys",
        "attention sinks(z: f32[H], w: f32, t: f32[H]) "
        "{ mask = q >= 20 && q >= k\n score = s * t[h]\n sink = z[h] * w + t[h] }",
        _SQUARE,
        lambda: {"z": _random(6), "w": torch.tensor(0.7), "t": _random(6, seed=8)},
        mask=lambda p, b, h, q, k: (q >= 20) & (q >= k),
        score=lambda p, s, b, h, q, k: s * p["t"][h],
        sink=lambda p: p["z"] * p["w"] + p["t"],
    ),
    Case(
        "a masked score that has no derivative",
        "attention wild(t: f32[Sk]) { mask = q > k\n score = s + log(1.0 * (q - k)) * t[k] }",
        _SQUARE,
        lambda: {"t": _random(61)},
        mask=lambda p, b, h, q, k: q > k,
        score=lambda p, s, b, h, q, k: s + (q - k).clamp_min(1).to(s).log() * p["t"][k],
    ),
    *(
        case
        for case in CASES
        if any(isinstance(x, float) or _is_float(x) for x in case.parameters().values())
    ),
]
