# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradients of captured tensors and scalar parameters, against plain PyTorch in float64."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the tests of the PyTorch layer need PyTorch")

import tesela  # noqa: E402
import tesela.torch  # noqa: E402
from gradient_variants import CASES, Case, Parameters, reference  # noqa: E402
from tesela import flex  # noqa: E402
from torch import Tensor  # noqa: E402
from torch_gradient_tools import leaves  # noqa: E402
from torch_tools import inputs, poisoned, random  # noqa: E402

_TOLERANCES = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 2e-2}


def _random(*shape: int, seed: int = 7) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _causal(_: Parameters, b: Any, h: Any, q: Any, k: Any) -> Any:
    return q >= k


def _features(p: Parameters, s: Tensor, b: Any, h: Any, q: Any, k: Any) -> Tensor:
    return s + torch.einsum("hiq,hik->hqk", p["a"].to(s), p["c"].to(s))


_SQUARE = {"queries": 61, "keys": 61}
_PARAMETERS = [
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
    *(case for case in CASES if case.score is not None or case.sink is not None),
]


def _trained(parameters: Parameters) -> dict[str, Tensor]:
    """The floating-point values as leaves."""
    return {
        name: torch.as_tensor(value).detach().clone().requires_grad_()
        for name, value in parameters.items()
        if isinstance(value, float) or (isinstance(value, Tensor) and value.is_floating_point())
    }


def _check(actual: Tensor, exact: Tensor, like: Tensor, dtype: torch.dtype) -> None:
    assert actual.dtype is like.dtype
    assert actual.shape == like.shape
    error = actual.double() - exact
    tolerance = _TOLERANCES[dtype] + _TOLERANCES.get(like.dtype, 0)
    assert error.norm() <= tolerance * exact.norm() + 1e-6, f"{error.norm()} of {exact.norm()}"


@pytest.mark.parametrize("case", _PARAMETERS, ids=lambda case: case.name)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_variants(case: Case, dtype: torch.dtype) -> None:
    dense = inputs(**case.sizes, dtype=dtype)
    parameters = case.parameters()
    trained = _trained(parameters)
    if not trained:
        pytest.skip("nothing that is trained")
    grad = random(*dense[0].shape[:3], dense[2].shape[3], seed=4, dtype=dtype)
    given = leaves(*dense)
    with poisoned():
        out = tesela.attention(*given, case.variant, **{**parameters, **trained})
        got = torch.autograd.grad(out, (*given, *trained.values()), grad)

    exact = {name: value.detach().double().requires_grad_() for name, value in trained.items()}
    wide = [each.detach().double().requires_grad_() for each in dense]
    wanted = torch.autograd.grad(
        reference(*wide, case, {**parameters, **exact}), (*wide, *exact.values()), grad.double()
    )
    for name, actual, each in zip(trained, got[3:], wanted[3:], strict=True):
        _check(actual, each, trained[name], dtype)
    # Without gradients of q, k and v they are the same.
    with poisoned():
        out = tesela.attention(*dense, case.variant, **{**parameters, **trained})
        again = torch.autograd.grad(out, list(trained.values()), grad)
    for first, second in zip(got[3:], again, strict=True):
        assert torch.equal(first, second)


SIZES = [
    {"queries": 1, "keys": 1, "batch": 1},
    {"queries": 300, "keys": 1, "kv_heads": 6},
    {"queries": 1, "keys": 300, "kv_heads": 1},
    {"queries": 129, "keys": 257, "head_dim": 72, "head_dim_v": 40},
    {"queries": 65, "keys": 64, "head_dim": 128, "head_dim_v": 256, "batch": 1},
]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("is_bshd", [False, True])
def test_sizes(sizes: dict[str, int], is_bshd: bool) -> None:
    q, k, v = inputs(**sizes)
    heads, queries, keys = q.shape[1], q.shape[2], k.shape[2]
    text = (
        "attention sized(slope: f32[H], bias: f32[H, Sq, Sk], t: f32[H, N]) "
        "{ score = s + slope[h] * (k - q) + bias[h, q, k] + t[h, k + q]\n sink = slope[h] }"
    )
    case = Case(
        "sized",
        text,
        score=lambda p, s, b, h, i, j: (
            s + p["slope"][h] * (j - i) + p["bias"][h, i, j] + p["t"][h, i + j]
        ),
        sink=lambda p: p["slope"],
    )
    trained = {
        "slope": (_random(heads) / 16).requires_grad_(),
        "bias": _random(heads, queries, keys).requires_grad_(),
        "t": _random(heads, queries + keys).requires_grad_(),
    }
    grad = random(*q.shape[:3], v.shape[3], seed=4, dtype=torch.float32)
    if is_bshd:
        swapped = (each.transpose(1, 2).contiguous() for each in (q, k, v))
        out = tesela.attention(*swapped, text, layout="bshd", **trained).transpose(1, 2)
    else:
        out = tesela.attention(q, k, v, text, **trained)
    got = torch.autograd.grad(out, list(trained.values()), grad)
    exact = {name: value.detach().double().requires_grad_() for name, value in trained.items()}
    wanted = torch.autograd.grad(
        reference(q.double(), k.double(), v.double(), case, exact),
        list(exact.values()),
        grad.double(),
    )
    for name, actual, each in zip(trained, got, wanted, strict=True):
        _check(actual, each, trained[name], torch.float32)


def test_the_same_bits() -> None:
    dense = inputs(queries=200, keys=190, dtype=torch.bfloat16)
    table = _random(6, 33).requires_grad_()
    grad = random(2, 6, 200, 64, seed=4, dtype=torch.bfloat16)
    found = [
        torch.autograd.grad(tesela.attention(*dense, "relative_bias", table=table), table, grad)[0]
        for _ in range(5)
    ]
    assert all(torch.equal(found[0], each) for each in found)


def test_strides_and_expanded_captures() -> None:
    dense = inputs()
    bias = _random(61, 37, 6).requires_grad_()  # [Sk, Sq, H]
    row = _random(1, 61).requires_grad_()
    text = (
        "attention strided(bias: f32[H, Sq, Sk], row: f32[H, Sk]) "
        "{ score = s + bias[h, q, k] + row[h, k] }"
    )
    out = tesela.attention(*dense, text, bias=bias.permute(2, 1, 0), row=row.expand(6, -1))
    got = torch.autograd.grad(out.sin().sum(), (bias, row))
    wide = [each.double() for each in dense]
    given = [each.detach().double().requires_grad_() for each in (bias, row)]
    case = Case("", "", score=lambda p, s, b, h, q, k: s + p["bias"][k, q, h] + p["row"][0 * h, k])
    exact = reference(*wide, case, dict(zip(("bias", "row"), given, strict=True)))
    for actual, wanted, like in zip(
        got, torch.autograd.grad(exact.sin().sum(), given), (bias, row), strict=True
    ):
        _check(actual, wanted, like, torch.float32)


def test_without_pairs() -> None:
    q, k, v = inputs(keys=0)
    slope = _random(6).requires_grad_()
    tesela.attention(q, k, v, "alibi", slope=slope).sum().backward()
    assert slope.grad is not None
    assert (slope.grad == 0).all()


def test_what_is_not_finite_shows() -> None:
    q, k, v = inputs()
    slope = _random(6).requires_grad_()
    out = tesela.attention(q, k, v, "alibi", slope=slope)
    grad = torch.ones_like(out)
    grad[0, 2, 5, 3] = math.inf
    (got,) = torch.autograd.grad(out, slope, grad)
    assert got.isnan().tolist() == [False, False, True, False, False, False]


def test_operator() -> None:
    """By the dispatcher: compiled, and under torch.func."""
    dense = inputs()
    slope = (_random(6) / 8).requires_grad_()

    def loss(slope: Tensor) -> Any:
        return tesela.attention(*dense, "alibi", slope=slope).sin().sum()

    (wanted,) = torch.autograd.grad(loss(slope), slope)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(torch.autograd.grad(compiled(slope), slope)[0], wanted)
    torch.testing.assert_close(torch.func.grad(loss)(slope.detach()), wanted)
    several = torch.stack([slope.detach(), slope.detach() * 2])
    each = torch.vmap(torch.func.grad(loss))(several)
    torch.testing.assert_close(each[0], wanted)
    torch.testing.assert_close(each[1], torch.func.grad(loss)(several[1]))


def test_functions_and_masks() -> None:
    """What a function captures, and the bias of scaled_dot_product_attention."""
    q, k, v = inputs(kv_heads=6)
    table = _random(6, 97).requires_grad_()
    got = torch.autograd.grad(
        flex.flex_attention(q, k, v, lambda s, b, h, i, j: s + table[h, j - i + 36]).sin().sum(),
        table,
    )[0]
    bias = table[torch.arange(6)[:, None, None], torch.arange(61) - torch.arange(37)[:, None] + 36]
    by_mask = torch.autograd.grad(
        tesela.torch.scaled_dot_product_attention(q, k, v, bias).sin().sum(), table
    )[0]
    torch.testing.assert_close(got, by_mask, atol=1e-5, rtol=1e-4)


def test_what_has_no_gradient_is_refused() -> None:
    dense = inputs()
    reach = torch.tensor(4.0, requires_grad=True)
    for text in (
        "attention local(const reach: f32 = 4) { score = s - reach }",
        "attention local(reach: i32 = 4) { mask = q - k < reach }",
    ):
        with pytest.raises(tesela.UnsupportedError, match=r"'reach' requires.*reach\.detach\(\)"):
            tesela.attention(*dense, text, reach=reach)
    slope = _random(6).requires_grad_()
    with pytest.raises(tesela.UnsupportedError, match="out is given"):
        tesela.attention(*dense, "alibi", slope=slope, out=torch.empty(2, 6, 37, 64))
    out = tesela.attention(*dense, "alibi", slope=slope)
    (first,) = torch.autograd.grad(out.sum(), slope, create_graph=True)
    with pytest.raises(tesela.UnsupportedError, match="double backward"):
        first.sum().backward()
    with torch.no_grad():
        assert not tesela.attention(*dense, "alibi", slope=slope).requires_grad
