# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The PyTorch layer on CUDA. Needs a GPU, and is skipped without one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the tests of the PyTorch layer need PyTorch")

import tesela  # noqa: E402
import tesela.torch  # noqa: E402
from tesela.torch import SdpaCall, scaled_dot_product_attention  # noqa: E402
from torch import Tensor  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch_tools import (  # noqa: E402
    attend,
    causal,
    check,
    check_lse,
    expected,
    inputs,
    random,
    window,
)

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="NO GPU: torch.cuda.is_available() is false"
)
several = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="ONE GPU: it needs two")

TYPES = [torch.bfloat16, torch.float16]
BF16 = torch.bfloat16


def on_gpu(**sizes: Any) -> tuple[Tensor, Tensor, Tensor]:
    return inputs(**{"device": "cuda", "dtype": BF16, **sizes})


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize(
    "sizes",
    [
        {"queries": 300, "keys": 515},
        {"queries": 1, "keys": 1000, "batch": 3},
        {"queries": 129, "keys": 129, "head_dim": 128},
        {"queries": 64, "keys": 200, "head_dim": 128, "head_dim_v": 64, "kv_heads": 1},
    ],
)
def test_against_double_precision(dtype: Any, layout: Any, sizes: dict[str, int]) -> None:
    q, k, v = on_gpu(dtype=dtype, **sizes)
    wanted, logarithms = expected(q, k, v, mask=causal)
    if layout == "bshd":
        q, k, v = (each.transpose(1, 2).contiguous() for each in (q, k, v))
    out, lse = attend(q, k, v, "causal", return_lse=True, layout=layout)
    assert torch.equal(attend(q, k, v, "causal", layout=layout), out)
    assert out.is_contiguous()
    check(out.transpose(1, 2) if layout == "bshd" else out, wanted)
    check_lse(lse, logarithms)


def test_order_in_memory_is_kept() -> None:
    q, k, v = on_gpu(queries=200, keys=300)
    views = [each.transpose(1, 2).contiguous().transpose(1, 2) for each in (q, k, v)]
    out = attend(*views)
    assert out.transpose(1, 2).is_contiguous()
    check(out, expected(q, k, v)[0])


def test_captured_tensors() -> None:
    q, k, v = on_gpu(queries=200, keys=200)
    slopes = (random(12, seed=5, dtype=torch.float32, device="cuda").abs() / 16)[::2]
    numbers = slopes.double().cpu().numpy()
    wanted = expected(q, k, v, mask=causal, score=lambda s, b, h, q, k: s + numbers[h] * (k - q))
    text = "attention t(slope: f32[H]) { mask = q >= k\n score = s + slope[h] * (k - q) }"
    check(attend(q, k, v, text, slope=slopes), wanted[0])
    documents = (torch.arange(200, device="cuda") // 37).repeat(2, 1)
    ids = documents.cpu().numpy()
    text = "attention t(doc: i32[B, Sk]) { mask = doc[b, q] == doc[b, k] }"
    wanted = expected(q, k, v, mask=lambda b, h, q, k: ids[b, q] == ids[b, k])
    for dtype in (torch.int64, torch.int32):
        check(attend(q, k, v, text, doc=documents.to(dtype)), wanted[0])
    check(
        attend(q, k, v, "sliding_window", window=torch.tensor(9, device="cuda")),
        expected(q, k, v, mask=window(9))[0],
    )


def test_mistakes() -> None:
    q, k, v = on_gpu()
    with pytest.raises(tesela.UnsupportedError, match=r"float32, which only the CPU computes"):
        tesela.attention(q.float(), k.float(), v.float())
    with pytest.raises(tesela.Error, match="k"):
        tesela.attention(q, k.cpu(), v)
    with pytest.raises(tesela.Error, match="v"):
        tesela.attention(q, k, v.cpu())
    with pytest.raises(tesela.Error, match="k"):
        tesela.attention(q.cpu(), k, v)
    with pytest.raises(tesela.Error, match="slope"):
        tesela.attention(q, k, v, "alibi", slope=torch.rand(6))
    with pytest.raises(tesela.Error, match="o"):
        tesela.attention(q, k, v, out=torch.empty(q.shape, dtype=q.dtype))
    wide = torch.zeros(*q.shape[:3], 72, device="cuda", dtype=BF16)
    with pytest.raises(tesela.InvalidArgumentError, match="16"):
        tesela.attention(wide[..., 1:65], k, v)
    torch.cuda.synchronize()  # no wrong launch was queued
    check(attend(q, k, v), expected(q, k, v)[0])


@several
def test_several_devices() -> None:
    assert torch.cuda.current_device() == 0
    q, k, v = on_gpu(device="cuda:1")
    check(attend(q, k, v, "causal"), expected(q, k, v, mask=causal)[0])
    first = on_gpu(device="cuda:0")
    check(attend(*first, "causal"), expected(*first, mask=causal)[0])
    with pytest.raises(tesela.Error, match="k"):
        tesela.attention(q, first[1], v)
    stream = torch.cuda.Stream("cuda:1")
    with torch.cuda.stream(stream):
        check(attend(q, k, v), expected(q, k, v)[0])
    ignored = torch.rand(2, 61, device="cuda:1") > 0.5
    keep = ~ignored.cpu().numpy()
    wanted = expected(q, k, v, mask=lambda b, h, q, k: keep[b, k])[0]
    check(attend(q, k, v, "key_padding", ignored=ignored), wanted)


def test_streams() -> None:
    """A launch is on the current stream, after the work that delays its inputs there."""
    q, k, v = on_gpu(queries=500, keys=500)
    wanted = expected(q, k, v, mask=causal)[0]
    attend(q, k, v, "causal")
    torch.cuda.synchronize()
    late = torch.full_like(q, torch.nan)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)
        late.copy_(q)
        out = tesela.attention(late, k, v, "causal")
        assert not stream.query(), "the launch waited for the GPU"
    torch.cuda.current_stream().wait_stream(stream)
    check(out, wanted)


@pytest.mark.parametrize("variant", ["causal", "key_padding"])
def test_memory_is_pytorchs(variant: str) -> None:
    q, k, v = on_gpu(queries=2048, keys=2048)
    given = {"ignored": torch.rand(2, 2048, device="cuda") > 0.5} if variant != "causal" else {}
    for _ in range(3):
        tesela.attention(q, k, v, variant, **given)
    torch.cuda.synchronize()
    free, _ = torch.cuda.mem_get_info()
    before = torch.cuda.memory_allocated()
    kept = [tesela.attention(q, k, v, variant, **given) for _ in range(8)]
    torch.cuda.synchronize()
    bytes_kept = sum(each.numel() * each.element_size() for each in kept)
    assert torch.cuda.memory_allocated() - before == bytes_kept
    reserved = torch.cuda.memory_reserved()
    kept += [tesela.attention(q, k, v, variant, **given) for _ in range(2)]
    torch.cuda.synchronize()
    grown = torch.cuda.memory_reserved() - reserved
    assert free - torch.cuda.mem_get_info()[0] <= bytes_kept * 2 + grown + (64 << 20)


def capture(function: Callable[[], Any]) -> tuple[Any, Any]:
    """The result of a captured call, and the graph. A call before it compiles."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        function()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = function()
    return result, graph


def test_graph() -> None:
    q, k, v = on_gpu(queries=300, keys=300)
    (out, lse), graph = capture(lambda: tesela.attention(q, k, v, "causal", return_lse=True))
    for scale in (1, 2):
        q.mul_(scale)
        out.fill_(torch.nan)
        lse.fill_(torch.nan)
        graph.replay()
        wanted, logarithms = expected(q, k, v, mask=causal)
        check(out, wanted)
        check_lse(lse, logarithms)


def test_graph_reads_captured_tensors_when_it_runs() -> None:
    """Also with summaries of a mask's tensor, whose memory PyTorch allocates."""
    q, k, v = on_gpu(queries=700, keys=700)
    ignored = torch.zeros(2, 700, dtype=torch.bool, device="cuda")
    out, graph = capture(lambda: tesela.attention(q, k, v, "key_padding", ignored=ignored))
    others = [torch.empty(1 << 20, device="cuda") for _ in range(8)]
    for first in (0, 100, 650):
        ignored.copy_((torch.arange(700, device="cuda") < first).expand(2, 700))
        for other in others:
            other.fill_(torch.nan)
        out.fill_(torch.nan)
        graph.replay()
        check(out, expected(q, k, v, mask=lambda b, h, q, k, first=first: k >= first)[0])


def test_make_graphed_callables() -> None:
    q, k, v = on_gpu(queries=300, keys=300)

    def layer(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return tesela.attention(q, k, v, "causal") * 2

    graphed = torch.cuda.make_graphed_callables(layer, (q, k, v))
    other = q.flip(2).contiguous()
    check(graphed(other, k, v) / 2, expected(other, k, v, mask=causal)[0])


def test_reduce_overhead() -> None:
    from torch._dynamo.utils import counters

    q, k, v = on_gpu(queries=300, keys=300)
    slope = torch.rand(6, device="cuda")

    def layer(q: Tensor, k: Tensor, v: Tensor, slope: Tensor) -> Tensor:
        return tesela.attention(q * 2, k, v, "alibi", slope=slope) + 1

    torch.compiler.reset()
    counters.clear()
    compiled = torch.compile(layer, fullgraph=True, mode="reduce-overhead")
    with torch.no_grad():
        for turn in range(5):
            torch.compiler.cudagraph_mark_step_begin()
            query = q.roll(turn, 2)
            got = compiled(query, k, v, slope).clone()
            torch.testing.assert_close(got, layer(query, k, v, slope), atol=3e-2, rtol=3e-2)
    assert counters["inductor"]["cudagraph_skips"] == 0


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_lengths(backend: str) -> None:
    def layer(q: Tensor, k: Tensor, v: Tensor, size: int) -> tuple[Tensor, Tensor]:
        out, lse = tesela.attention(q + 0, k, v, "sliding_window", window=size, return_lse=True)
        return out * 1, lse * 1

    torch.compiler.reset()
    compiled = torch.compile(layer, fullgraph=True, backend=backend, dynamic=True)
    with torch.no_grad():
        compiled(*on_gpu(queries=300, keys=400), 7)
        with torch._dynamo.config.patch(error_on_recompile=True):
            for length, size in ((100, 9), (777, 64), (2048, 500)):
                q, k, v = on_gpu(queries=length, keys=length)
                out, lse = compiled(q, k, v, size)
                wanted, logarithms = expected(q, k, v, mask=window(size))
                check(out, wanted)
                check_lse(lse, logarithms)


def test_opcheck() -> None:
    q, k, v = on_gpu()
    text = tesela.variant("alibi").text
    slope = torch.rand(6, device="cuda")
    rest = (text, [], [], ["slope"], [slope], None, False, True)
    torch.library.opcheck(torch.ops.tesela.attention.default, (q, k, v, *rest))
    torch.library.opcheck(
        torch.ops.tesela.attention_into.default, (q, k, v, torch.empty_like(q), *rest)
    )


def test_autocast() -> None:
    q, k, v = on_gpu(dtype=torch.float32)
    for dtype in TYPES:
        with torch.autocast("cuda", dtype=dtype):
            out = attend(q, k, v, "causal")
        assert torch.equal(out, attend(*(each.to(dtype) for each in (q, k, v)), "causal"))


def test_profiler() -> None:
    q, k, v = on_gpu()
    tesela.attention(q, k, v)
    with torch.profiler.profile() as profile:
        tesela.attention(q, k, v)
        torch.cuda.synchronize()
    assert "tesela::attention" in {event.key for event in profile.key_averages()}


def test_vmap() -> None:
    q = random(3, 2, 4, 170, 64, seed=1, dtype=BF16, device="cuda")
    ignored = torch.rand(3, 2, 170, device="cuda") > 0.5

    def padded(q: Tensor, ignored: Tensor) -> Tensor:
        return tesela.attention(q, q, q, "key_padding", ignored=ignored)

    each = torch.stack([padded(*pair) for pair in zip(q, ignored, strict=True)])
    torch.testing.assert_close(torch.vmap(padded)(q, ignored), each)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    "shape", [None, "causal", (), (300, 515), (2, 1, 1, 515), (6, 300, 1), (2, 6, 300, 515)]
)
@pytest.mark.parametrize("kind", ["bool", "bias"])
def test_sdpa(dtype: Any, shape: Any, kind: str) -> None:
    q, k, v = on_gpu(queries=300, keys=515, dtype=dtype)
    given: dict[str, Any] = {"is_causal": True} if shape == "causal" else {}
    if isinstance(shape, tuple):
        numbers = random(*shape, seed=4, dtype=torch.float32, device="cuda")
        given["attn_mask"] = numbers > -0.5 if kind == "bool" else numbers.to(dtype)
    # PyTorch does not accept a mask without axes; Tesela broadcasts it.
    exact = {
        name: torch.atleast_2d(each.cpu() if each.dtype == torch.bool else each.cpu().double())
        for name, each in given.items()
        if isinstance(each, Tensor)
    }
    wanted = functional.scaled_dot_product_attention(
        *(each.cpu().double() for each in (q, k, v)),
        **{**given, **exact},
        enable_gqa=True,
    )
    check(scaled_dot_product_attention(q, k, v, **given, enable_gqa=True), wanted)


def test_replaced() -> None:
    q, k, v = on_gpu(kv_heads=6)
    wide = torch.zeros(*q.shape[:3], 72, device="cuda", dtype=BF16)
    wide[..., 1:65] = q
    # PyTorch 2.11's result is wrong here. The test only checks that the result is PyTorch's.
    theirs_alone = functional.scaled_dot_product_attention(wide[..., 1:65], k, v)
    with tesela.torch.replace_sdpa() as log:
        functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        odd = functional.scaled_dot_product_attention(wide[..., 1:65], k, v)
        functional.scaled_dot_product_attention(q.float(), k.float(), v.float())
    assert torch.equal(odd, theirs_alone)
    assert log[SdpaCall("tesela", "causal", None)] == 1
    theirs = [call.reason or "" for call in log if call.path == "pytorch"]
    assert len(theirs) == 2, log
    assert any("16" in reason for reason in theirs)
    assert any("float32" in reason for reason in theirs)


def test_threads_and_streams() -> None:
    from concurrent.futures import ThreadPoolExecutor

    q, k, v = on_gpu(queries=400, keys=400)
    wanted = expected(q, k, v, mask=causal)[0]
    torch.cuda.synchronize()

    def work(_: int) -> Tensor:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(20):
                out = tesela.attention(q, k, v, "causal")
        stream.synchronize()
        return out

    with ThreadPoolExecutor(4) as pool:
        for out in pool.map(work, range(8)):
            check(out, wanted)


def test_numpy_still_works() -> None:
    x = np.zeros((1, 1, 8, 8), np.float32)
    assert (tesela.attention(x, x, x) == 0).all()
