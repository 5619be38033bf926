# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""scaled_dot_product_attention against PyTorch's math backend in double precision."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the tests of the PyTorch layer need PyTorch")

import tesela  # noqa: E402
import tesela.torch  # noqa: E402
from tesela.torch import SdpaCall, scaled_dot_product_attention  # noqa: E402
from torch import Tensor  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402
from torch_tools import poisoned, random  # noqa: E402

B, H, L, S, E, EV = 2, 4, 17, 23, 32, 16
_pytorch = functional.scaled_dot_product_attention


def tensors(
    *lead: int, kv: tuple[int, ...] | None = None, dtype: Any = torch.float32
) -> tuple[Tensor, Tensor, Tensor]:
    kv = lead if kv is None else kv
    return (
        random(*lead, L, E, seed=1, dtype=dtype),
        random(*kv, S, E, seed=2, dtype=dtype),
        random(*kv, S, EV, seed=3, dtype=dtype),
    )


def check(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, **rest: Any) -> None:
    with poisoned():
        got = scaled_dot_product_attention(q, k, v, mask, **rest)
    exact = mask.double() if mask is not None and mask.dtype != torch.bool else mask
    with sdpa_kernel(SDPBackend.MATH):
        wanted = _pytorch(q.double(), k.double(), v.double(), exact, **rest)
    assert got.dtype is q.dtype
    assert got.shape == wanted.shape
    limit = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}[q.dtype]
    torch.testing.assert_close(got.double(), wanted, atol=limit, rtol=limit)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_axes(is_causal: bool, dtype: Any) -> None:
    for lead in ((B, H), (H,), (), (3, B, H), (1, 3, B, H)):
        check(*tensors(*lead, dtype=dtype), is_causal=is_causal)
    check(*tensors(B, H, dtype=dtype), is_causal=is_causal, scale=0.3)
    q, k, v = tensors(B, L, H, dtype=dtype)  # [B, S, H, D], as projections give
    swapped = [
        each.flatten(1, 2)[:, :20].unflatten(1, (5, 4)).transpose(1, 2) for each in (q, k, v)
    ]
    check(*swapped, is_causal=is_causal)


@pytest.mark.parametrize("is_causal", [False, True])
def test_heads(is_causal: bool) -> None:
    check(*tensors(B, H, kv=(B, 2)), is_causal=is_causal, enable_gqa=True)
    check(*tensors(H, kv=(2,)), is_causal=is_causal, enable_gqa=True)
    check(*tensors(B, H, kv=(B, 1)), is_causal=is_causal)
    check(*tensors(B, H, kv=(B, 1)), is_causal=is_causal, enable_gqa=True)
    check(*tensors(B, 1, kv=(B, H)), is_causal=is_causal)


def test_broadcast() -> None:
    q, k, v = tensors(B, H)
    for queries, keys, values in (
        (q[:1], k, v),
        (q, k[:1], v),
        (q, k[:1, :1], v),
        (q, k[:, :1], v[:1]),
        (q[0], k, v),
        (q, k[0], v[0]),
        (q, k[0, 0], v),
        (q[0, 0], k[0], v[0]),
    ):
        check(queries, keys, values)


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32])
def test_masks(dtype: Any) -> None:
    q, k, v = tensors(B, H)
    for shape in itertools.product((1, B), (1, H), (1, L), (1, S)):
        mask = random(*shape, seed=4, dtype=torch.float32)
        keep = random(*shape, seed=5, dtype=torch.float32) > -0.3
        given = keep if dtype is torch.bool else mask.masked_fill(~keep, -torch.inf)
        check(q, k, v, given)
        check(q, k, v, given.expand(B, H, L, S))
    for shape in ((L, S), (S,), (L, 1), (1,), (), (H, L, S)):
        mask = random(*shape, seed=4, dtype=torch.float32)
        check(q, k, v, mask > 0 if dtype is torch.bool else mask)


def test_masks_of_other_axes() -> None:
    q, k, v = tensors(3, B, H)
    for shape in (
        (L, S),
        (H, 1, S),
        (B, 1, 1, S),
        (3, 1, 1, 1, S),
        (3, B, H, L, S),
        (1, B, H, 1, S),
    ):
        check(q, k, v, random(*shape, seed=6, dtype=torch.float32) > 0)
    q, k, v = tensors(H)
    check(q, k, v, random(L, S, seed=6, dtype=torch.float32) > 0)
    check(q, k, v, random(H, 1, S, seed=6, dtype=torch.float32) > 0)
    q, k, v = tensors()
    check(q, k, v, random(L, S, seed=6, dtype=torch.float32))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_masks_in_the_type_of_query(dtype: Any) -> None:
    check(*tensors(B, H, dtype=dtype), random(H, L, S, seed=7, dtype=dtype))
    check(*tensors(B, H, dtype=dtype), random(1, H, L, 1, seed=7, dtype=torch.float32))


def test_rows_without_keys() -> None:
    q, k, v = tensors(B, H)
    keep = torch.ones(L, S, dtype=torch.bool)
    keep[3] = keep[9] = False
    check(q, k, v, keep)
    check(q, k, v, torch.zeros(L, S).masked_fill(~keep, -torch.inf))
    with poisoned():
        assert (scaled_dot_product_attention(q, k, v, keep)[:, :, 3] == 0).all()


def test_mask_that_is_the_same_along_an_axis_takes_no_memory() -> None:
    """An expanded mask is read in place: the kernel is that of the small mask."""
    q, k, v = tensors(B, H)
    keep = torch.rand(B, 1, 1, S) > 0.5
    with tesela.torch.sdpa_log() as log:
        scaled_dot_product_attention(q, k, v, keep)
        scaled_dot_product_attention(q, k, v, keep.expand(B, H, L, S))
    assert log == {SdpaCall("tesela", "sdpa_mask_bk", None): 2}


UNSUPPORTED: list[tuple[dict[str, Any], str]] = [
    ({"scale": -1.0}, "scale is -1.0"),
    ({"scale": 0.0}, "scale is 0.0"),
    ({"scale": float("inf")}, "scale is inf"),
    ({"attn_mask": torch.ones(L, S, dtype=torch.float64)}, "torch.float64"),
]


@pytest.mark.parametrize(("arguments", "sentence"), UNSUPPORTED)
def test_unsupported(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(tesela.UnsupportedError, match=sentence):
        scaled_dot_product_attention(*tensors(B, H), **arguments)


def test_mistakes() -> None:
    q, k, v = tensors(B, H)
    with pytest.raises(tesela.InvalidArgumentError, match="only one may be"):
        scaled_dot_product_attention(q, k, v, torch.ones(L, S, dtype=torch.bool), is_causal=True)
    with pytest.raises(tesela.InvalidArgumentError, match=r"attn_mask has the shape \(17, 22\)"):
        scaled_dot_product_attention(q, k, v, torch.ones(L, S - 1, dtype=torch.bool))
    with pytest.raises(tesela.InvalidArgumentError, match="attn_mask has the shape"):
        scaled_dot_product_attention(q, k, v, torch.ones(2, 1, 1, L, S))
    with pytest.raises(tesela.UnsupportedError, match="head dimension is 31"):
        scaled_dot_product_attention(q[..., :31], k[..., :31], v)
    with pytest.raises(tesela.UnsupportedError, match=r"torch\.float64"):
        scaled_dot_product_attention(q.detach().double(), k.double(), v.double())
    with pytest.raises(tesela.UnsupportedError, match="last stride"):
        scaled_dot_product_attention(q.detach().mT.contiguous().mT, k, v)


def test_replaced() -> None:
    q, k, v = tensors(B, H)
    with tesela.torch.replace_sdpa() as log:
        assert functional.scaled_dot_product_attention is not _pytorch
        ours = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        theirs = functional.scaled_dot_product_attention(q.double(), k.double(), v.double())
        bias = torch.zeros(L, S, requires_grad=True)
        functional.scaled_dot_product_attention(q, k, v, bias).sum().backward()
        functional.scaled_dot_product_attention(q, k, v, dropout_p=0.1)
        with pytest.raises(RuntimeError):  # PyTorch refuses it, too, with its own error
            functional.scaled_dot_product_attention(q, k[..., :8], v)
    assert functional.scaled_dot_product_attention is _pytorch
    assert bias.grad is not None
    assert theirs.dtype is torch.float64
    assert torch.equal(ours, scaled_dot_product_attention(q.detach(), k, v, is_causal=True))
    assert log[SdpaCall("tesela", "causal", None)] == 1
    reasons = [call.reason for call in log if call.path == "pytorch"]
    assert any("torch.float64" in str(reason) for reason in reasons), reasons
    assert sum(log.values()) == 5


def test_replaced_ends_with_an_error() -> None:
    with pytest.raises(KeyError), tesela.torch.replace_sdpa():
        raise KeyError
    assert functional.scaled_dot_product_attention is _pytorch


def test_replaced_in_a_module() -> None:
    attention = torch.nn.MultiheadAttention(64, 4, batch_first=True).eval()
    x = random(2, 9, 64, seed=8, dtype=torch.float32)
    keep = torch.rand(2, 9) > 0.8
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.no_grad():
            wanted, _ = attention(x, x, x, key_padding_mask=keep, need_weights=False)
            with tesela.torch.replace_sdpa() as log:
                got, _ = attention(x, x, x, key_padding_mask=keep, need_weights=False)
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    torch.testing.assert_close(got, wanted)
    assert log == {SdpaCall("tesela", "sdpa_bias_bhk", None): 1}


def test_compiled() -> None:
    q, k, v = tensors(B, H)
    keep = torch.rand(B, 1, 1, S) > 0.2

    def model(q: Tensor, k: Tensor, v: Tensor, keep: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(q, k, v, keep) + 1

    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=True)
    before = compiled(q, k, v, keep)
    with tesela.torch.replace_sdpa() as log:
        torch.testing.assert_close(compiled(q, k, v, keep), before)
        assert set(log) == {SdpaCall("tesela", "sdpa_mask_bk", None)}
        with torch._dynamo.config.patch(error_on_recompile=True):
            for length in (40, 55):
                key, value = (random(B, H, length, E, seed=9, dtype=torch.float32) for _ in "kv")
                keep = torch.rand(B, 1, 1, length) > 0.2
                got = compiled(q, key, value[..., :EV].contiguous(), keep)
                torch.testing.assert_close(
                    got - 1, _pytorch(q, key, value[..., :EV].contiguous(), keep)
                )
    with tesela.torch.sdpa_log() as log:
        torch.testing.assert_close(compiled(q, k, v, keep[..., :S]).shape, before.shape)
    assert not log


def test_compiled_falls_back() -> None:
    def model(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(q, k, v) + 1

    torch.compiler.reset()
    q, k, v = tensors(B, H)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    with tesela.torch.replace_sdpa() as log:
        compiled(q.double(), k.double(), v.double())
        assert {call.path for call in log} == {"pytorch"}
        log.clear()
        torch.testing.assert_close(compiled(q, k, v) - 1, _pytorch(q, k, v))
        assert {call.path for call in log} == {"tesela"}


@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize("name", ["causal", "bools", "bias", "many heads"])
def test_gradients(name: str, is_compiled: bool) -> None:
    q, k, v = tensors(B, H)
    given: dict[str, Any] = {
        "causal": {"is_causal": True},
        "bools": {"attn_mask": torch.rand(B, 1, L, S) > 0.2},
        "bias": {"attn_mask": torch.randn(H, L, S)},
        "many heads": {"enable_gqa": True},
    }[name]
    if name == "many heads":
        q = q.repeat(1, 3, 1, 1)

    def model(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(q, k, v, **given).sin().sum()

    q, k, v = (each.requires_grad_() for each in (q, k, v))
    wanted = torch.autograd.grad(model(q, k, v), (q, k, v))
    torch.compiler.reset()
    with tesela.torch.replace_sdpa() as log:
        ours = torch.compile(model, fullgraph=True, backend="aot_eager") if is_compiled else model
        actual = torch.autograd.grad(ours(q, k, v), (q, k, v))
    assert {call.path for call in log} == {"tesela"}
    for got, exact in zip(actual, wanted, strict=True):
        torch.testing.assert_close(got, exact, rtol=1e-4, atol=1e-5)
