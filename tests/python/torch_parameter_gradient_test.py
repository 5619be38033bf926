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
from gradient_variants import PARAMETER_CASES, Case, reference, reference_with_lse  # noqa: E402
from tesela import flex  # noqa: E402
from torch import Tensor  # noqa: E402
from torch_gradient_tools import check_parameter, check_parameters  # noqa: E402
from torch_tools import inputs, random  # noqa: E402


def _random(*shape: int, seed: int = 7) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("case", PARAMETER_CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_variants(case: Case, dtype: torch.dtype) -> None:
    check_parameters(case, dtype, "cpu")


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
        check_parameter(actual, each, trained[name], torch.float32)


def test_losses_of_the_logarithms() -> None:
    """Also through a sink, and for rows that only have the sink."""
    dense = inputs(queries=61, keys=61)
    case = next(each for each in PARAMETER_CASES if each.name.startswith("a sink of several"))
    values = case.parameters()
    trained = {name: value.requires_grad_() for name, value in values.items()}
    exact = {name: value.detach().double().requires_grad_() for name, value in values.items()}
    wanted = torch.autograd.grad(
        of_both(*reference_with_lse(*(each.double() for each in dense), case, exact)),
        list(exact.values()),
    )
    for given in (trained, {**trained, "w": trained["w"].detach().item()}):
        names = [name for name, value in given.items() if isinstance(value, Tensor)]
        found = tesela.attention(*dense, case.variant, return_lse=True, **given)
        got = torch.autograd.grad(of_both(*found), [given[name] for name in names])
        for name, actual in zip(names, got, strict=True):
            each = wanted[list(values).index(name)]
            check_parameter(actual, each, trained[name], torch.float32)


def of_both(out: Tensor, lse: Tensor) -> Tensor:
    return out.sin().sum() + 0.5 * lse.square().sum()


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
        check_parameter(actual, wanted, like, torch.float32)


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
    """Through the dispatcher: compiled, and with torch.func."""
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


@pytest.mark.parametrize("keys", [61, 0])
def test_gradients_lie_as_compiled_code_expects(keys: int) -> None:
    """opcheck compares the strides with those of the operator's fake implementation."""
    q, k, v = inputs(keys=keys)
    table = random(33, 6, seed=7, dtype=torch.float32).t()
    text = tesela.variant("relative_bias").text
    request = (text, ["reach"], [16], ["table"], [table], None, False)
    out, lse = torch.ops.tesela.attention(q, k, v, *request, True)
    given = (torch.rand_like(out), q, k, v, out, lse, None, *request, ["table"])
    operator = torch.ops.tesela.attention_backward_parameters.default
    torch.library.opcheck(operator, given, test_utils="test_faketensor")


def test_functions_and_masks() -> None:
    """Values that a function captures, and the bias of scaled_dot_product_attention."""
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


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_scalars_of_one_element(shape: tuple[int, ...]) -> None:
    """The gradient of a scalar has the shape in which its value was given."""
    dense = inputs()
    text = "attention tempered(t: f32) { score = s * t }"
    t = torch.full(shape, 0.5, requires_grad=True)
    tesela.attention(*dense, text, t=t).square().sum().backward()
    plain = torch.tensor(0.5, requires_grad=True)
    tesela.attention(*dense, text, t=plain).square().sum().backward()
    assert t.grad is not None and plain.grad is not None
    assert torch.equal(t.grad, plain.grad.reshape(shape))


def test_a_scale_has_no_gradient() -> None:
    dense = inputs()
    scale = torch.tensor(0.3, requires_grad=True)
    sentence = r"scale is a tensor that requires a gradient.*score = s \* temperature.*scale=1"
    with pytest.raises(tesela.UnsupportedError, match=sentence):
        tesela.attention(*dense, scale=scale)
    with pytest.raises(tesela.UnsupportedError, match=sentence):
        tesela.torch.scaled_dot_product_attention(*dense, scale=scale, enable_gqa=True)
    with pytest.raises(tesela.UnsupportedError, match=sentence):
        torch.func.grad(lambda scale: tesela.attention(*dense, scale=scale).sum())(scale.detach())
    with pytest.raises(tesela.InvalidArgumentError, match=r"scale is a tensor of the shape \(2,\)"):
        tesela.attention(*dense, scale=torch.ones(2))
    wanted = tesela.attention(*dense, scale=scale.item())
    assert torch.equal(tesela.attention(*dense, scale=scale.detach()), wanted)
    with torch.no_grad():
        assert torch.equal(tesela.attention(*dense, scale=scale), wanted)


def test_batched_gradients_are_refused() -> None:
    q, k, v = (each.requires_grad_() for each in inputs())
    slope = _random(6).requires_grad_()
    out = tesela.attention(q, k, v, "alibi", slope=slope)
    for wanted in (q, slope):
        with pytest.raises(tesela.UnsupportedError, match=r"is_grads_batched.*torch\.func\.vjp"):
            torch.autograd.grad(
                out, wanted, torch.ones(3, *out.shape), is_grads_batched=True, retain_graph=True
            )
