# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tesela.attention on PyTorch's tensors on the CPU, eager, against double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the tests of the PyTorch layer need PyTorch")

import tesela  # noqa: E402
import tesela.torch  # noqa: E402
from torch import Tensor  # noqa: E402
from torch_tools import (  # noqa: E402
    Watch,
    attend,
    causal,
    check,
    check_lse,
    expected,
    inputs,
    poisoned,
    random,
    window,
)

TYPES = [torch.float32, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("head_dims", [(64, 64), (72, 40), (128, 256)])
@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_causal(dtype: Any, head_dims: tuple[int, int], layout: Any) -> None:
    q, k, v = inputs(head_dim=head_dims[0], head_dim_v=head_dims[1], dtype=dtype)
    wanted, logarithms = expected(q, k, v, mask=causal)
    if layout == "bshd":
        q, k, v = (each.transpose(1, 2).contiguous() for each in (q, k, v))
    out, lse = attend(q, k, v, "causal", return_lse=True, layout=layout)
    alone = attend(q, k, v, "causal", layout=layout)
    assert out.dtype is dtype
    assert out.is_contiguous()
    assert torch.equal(alone, out)
    check(out.transpose(1, 2) if layout == "bshd" else out, wanted)
    check_lse(lse, logarithms)


@pytest.mark.parametrize(
    "sizes", [(1, 1, 1, 1, 1), (1, 8, 1, 1, 300), (3, 4, 4, 5, 7), (1, 2, 1, 300, 1)]
)
def test_sizes(sizes: tuple[int, int, int, int, int]) -> None:
    q, k, v = inputs(*sizes, dtype=torch.bfloat16)
    check(attend(q, k, v), expected(q, k, v)[0])


def test_without_elements() -> None:
    q, k, v = inputs(keys=0)
    out, lse = attend(q, k, v, return_lse=True)
    assert (out == 0).all()
    assert lse.isneginf().all()
    q, k, v = inputs(batch=0)
    assert attend(q, k, v).shape == q.shape


def test_result_keeps_the_order_in_memory() -> None:
    q, k, v = inputs(head_dim_v=32)
    seen = [each.transpose(1, 2).contiguous().transpose(1, 2) for each in (q, k, v)]
    out = attend(*seen)
    assert out.transpose(1, 2).is_contiguous()
    check(out, expected(q, k, v)[0])
    packed = torch.stack([q, q, q], dim=2)  # [B, H, 3, S, D]
    out = attend(packed[:, :, 1], k, v)
    assert out.is_contiguous()
    check(out, expected(q, k, v)[0])


def test_views_and_expanded_heads() -> None:
    q, k, v = inputs(kv_heads=1)
    wide = random(2, 1, 61, 128, seed=4, dtype=torch.float32)
    k = wide[..., 64:]
    wanted = expected(q, k, v)[0]
    check(attend(q, k.expand(2, 6, 61, 64), v.expand(2, 6, 61, 64)), wanted)
    check(attend(q, k, v), wanted)
    check(attend(q[:, :, ::2], k, v), wanted[:, :, ::2])
    one = q[:, :1].expand(2, 6, 37, 64)
    out = attend(one, k, v)
    assert out.stride(1) != 0
    check(out, expected(one, k, v)[0])


def test_out() -> None:
    q, k, v = inputs()
    out = torch.full_like(q, torch.nan)
    version = out._version
    assert tesela.attention(q, k, v, "causal", out=out) is out
    assert out._version > version
    check(out, expected(q, k, v, mask=causal)[0])
    with torch.inference_mode():
        mine = torch.full_like(q, torch.nan)
        assert torch.equal(tesela.attention(q, k, v, "causal", out=mine), out)
    with pytest.raises(tesela.InvalidArgumentError, match="o"):
        tesela.attention(q, k, v, out=torch.empty(2, 6, 36, 64))
    with pytest.raises(tesela.UnsupportedError, match="out is given"):
        tesela.attention(q, k, v, out=torch.empty_like(q, requires_grad=True))


def test_scale() -> None:
    q, k, v = inputs()
    check(attend(q, k, v, scale=0.5), expected(q, k, v, scale=0.5)[0])
    with pytest.raises(tesela.InvalidArgumentError, match="scale"):
        tesela.attention(q, k, v, scale=-1.0)


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_scalars(size: int) -> None:
    q, k, v = inputs()
    wanted = expected(q, k, v, mask=window(size))[0]
    check(attend(q, k, v, "sliding_window", window=size), wanted)
    check(attend(q, k, v, "sliding_window", window=torch.tensor(size)), wanted)
    check(attend(q, k, v, "sliding_window", window=np.int64(size)), wanted)
    bound = tesela.variant("sliding_window", window=size)
    check(attend(q, k, v, bound), wanted)
    check(attend(q, k, v, tesela.variant("sliding_window", window=3), window=size), wanted)


@pytest.mark.parametrize(("dtype", "name"), [(torch.float32, "f32"), (torch.bfloat16, "bf16")])
def test_captured_numbers(dtype: Any, name: str) -> None:
    q, k, v = inputs()
    slopes = (random(12, seed=5, dtype=torch.float32).abs() / 16).to(dtype)[::2]
    assert slopes.stride() == (2,)
    text = f"attention sloped(slope: {name}[H]) {{ score = s + slope[h] * (k - q) }}"
    numbers = slopes.double().numpy()
    wanted = expected(q, k, v, score=lambda s, b, h, q, k: s + numbers[h] * (k - q))
    check(attend(q, k, v, text, slope=slopes), wanted[0])


OF_DOCUMENTS = "attention of(doc: i32[B, Sk]) { mask = doc[b, q] == doc[b, k] }"


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_captured_integers(dtype: Any) -> None:
    q, k, v = inputs(queries=61)
    documents = (torch.arange(61) // 9).repeat(2, 1).to(dtype)
    documents[1] = torch.arange(61) // 20
    numbers = documents.numpy()
    wanted = expected(q, k, v, mask=lambda b, h, q, k: numbers[b, q] == numbers[b, k])
    check(attend(q, k, v, OF_DOCUMENTS, doc=documents), wanted[0])
    check(attend(q, k, v, OF_DOCUMENTS, doc=documents.T.contiguous().T), wanted[0])


def test_captured_bools() -> None:
    q, k, v = inputs()
    ignored = torch.rand(2, 61, generator=torch.Generator().manual_seed(1)) > 0.5
    ignored[1] = True  # no key is kept
    keep = ~ignored.numpy()
    wanted, logarithms = expected(q, k, v, mask=lambda b, h, q, k: keep[b, k])
    out, lse = attend(q, k, v, "key_padding", ignored=ignored, return_lse=True)
    check(out, wanted)
    check_lse(lse, logarithms)
    assert (out[1] == 0).all()


def test_parameters_of_modules() -> None:
    """An nn.Parameter is like any other tensor if no gradient is asked for."""
    q, k, v = (torch.nn.Parameter(each) for each in inputs())
    slope = torch.nn.Parameter(torch.rand(6))
    with torch.no_grad():
        out = attend(q, k, v, "alibi", slope=slope)
    with torch.inference_mode():
        assert torch.equal(attend(q, k, v, "alibi", slope=slope), out)


def test_autocast() -> None:
    q, k, v = inputs()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out, lse = attend(q, k, v, "causal", return_lse=True)
        low = attend(*(each.bfloat16() for each in (q, k, v)), "causal")
    assert out.dtype is torch.bfloat16
    assert lse.dtype is torch.float32
    assert torch.equal(out, low)
    with torch.autocast("cpu", dtype=torch.float16):
        assert attend(q, k, v).dtype is torch.float16
        with torch.profiler.profile():  # this call goes through the operator
            assert attend(q, k, v).dtype is torch.float16
        with torch.autocast("cpu", enabled=False):
            assert attend(q, k, v).dtype is torch.float32


def test_profiler_sees_it() -> None:
    q, k, v = inputs()
    with torch.profiler.profile() as profile:
        tesela.attention(q, k, v)
    assert "tesela::attention" in {event.key for event in profile.key_averages()}


def test_modes_and_subclasses_see_it() -> None:
    watch = Watch()

    class Tagged(Tensor):
        @classmethod
        def __torch_function__(
            cls, function: Any, types: Any, arguments: Any = (), named: Any = None
        ) -> Any:
            watch.seen.append(f"function {function}")
            return super().__torch_function__(function, types, arguments, named)

    q, k, v = inputs()
    with watch:
        tesela.attention(q, k, v)
    assert watch.seen == ["tesela.attention.default"]
    out = tesela.attention(q.as_subclass(Tagged), k, v)
    assert isinstance(out, Tagged)
    assert "function tesela.attention.default" in watch.seen


def test_pending_negation() -> None:
    """A lazy negation is a flag of a tensor; it is not in the memory."""
    q, k, v = inputs()
    lazy = torch._neg_view(q)
    assert lazy.is_neg()
    check(attend(lazy, k, v), expected(-q, k, v)[0])


def test_mistakes() -> None:
    q, k, v = inputs()
    with pytest.raises(
        tesela.UnsupportedError, match=r"k's elements are torch.float64, q's are torch.float32"
    ):
        tesela.attention(q, k.double(), v)
    with pytest.raises(tesela.InvalidArgumentError, match="four axes"):
        tesela.attention(q[0], k, v)
    with pytest.raises(tesela.InvalidArgumentError, match="four axes"):
        tesela.attention(q, k, v[0])
    with pytest.raises(tesela.InvalidArgumentError, match=r"v is of the type.*pass a tensor"):
        tesela.attention(q, k, None)
    with pytest.raises(tesela.InvalidArgumentError):
        tesela.attention(q, k[:, :, :-1], v)
    with pytest.raises(tesela.InvalidArgumentError):
        tesela.attention(q, k.bfloat16(), v)
    with pytest.raises(tesela.InvalidArgumentError):
        tesela.attention(q.mT.contiguous().mT, k, v)
    with pytest.raises(tesela.UnsupportedError, match=r"torch.float64.*convert"):
        tesela.attention(q.double(), k.double(), v.double())
    with pytest.raises(tesela.UnsupportedError, match=r"device 'meta'"):
        tesela.attention(q.to("meta"), k, v)
    with pytest.raises(tesela.InvalidArgumentError, match="slope"):
        tesela.attention(q, k, v, "alibi", slope=torch.rand(5))
    with pytest.raises(tesela.InvalidArgumentError, match="slope"):
        tesela.attention(q, k, v, "alibi")
    with pytest.raises(tesela.InvalidArgumentError, match="no parameter 'slop'"):
        tesela.attention(q, k, v, "alibi", slop=torch.rand(6))


def test_opcheck() -> None:
    q, k, v = inputs()
    rest = (["window"], [9], [], [], None, False)
    text = tesela.variant("sliding_window").text
    for return_lse in (False, True):
        torch.library.opcheck(
            torch.ops.tesela.attention.default, (q, k, v, text, *rest, return_lse)
        )
        torch.library.opcheck(
            torch.ops.tesela.attention_into.default,
            (q, k, v, torch.empty_like(q), text, *rest, return_lse),
        )
    swapped = [each.transpose(1, 2) for each in inputs(head_dim_v=32)]
    slope = ([], [], ["slope"], [torch.rand(6)], 0.5, True, True)
    torch.library.opcheck(
        torch.ops.tesela.attention.default, (*swapped, tesela.variant("alibi").text, *slope)
    )


def test_operator_and_eager_path_give_the_same_bits() -> None:
    q, k, v = inputs(dtype=torch.bfloat16)
    text = tesela.variant("sliding_window").text
    with poisoned():
        out, lse = torch.ops.tesela.attention(
            q, k, v, text, ["window"], [9], [], [], None, False, True
        )
    eager, eager_lse = attend(q, k, v, "sliding_window", window=9, return_lse=True)
    assert torch.equal(out, eager)
    assert torch.equal(lse, eager_lse)
