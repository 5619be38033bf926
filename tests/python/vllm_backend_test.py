# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests the example of a backend for vLLM, with vLLM's own classes if vLLM is installed.

Otherwise with a stand-in that has the same names (vllm_stand_in.py).
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

try:
    from vllm.v1.attention.backend import CommonAttentionMetadata
except ImportError:
    import vllm_stand_in

    vllm_stand_in.install()
    from vllm.v1.attention.backend import CommonAttentionMetadata

H, HKV, D, PAGE, PAGES, MOST = 4, 2, 32, 16, 24, 6


def load() -> ModuleType:
    path = Path(__file__).parents[2] / "examples" / "vllm_backend.py"
    spec = importlib.util.spec_from_file_location("vllm_backend", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["vllm_backend"] = module
    spec.loader.exec_module(module)
    return module


vllm_backend = load()


class Layer(NamedTuple):
    """The options of a model's layer."""

    window: int | None = None
    slopes: list[float] | None = None
    cap: float | None = None
    sinks: Tensor | None = None
    is_narrow: bool = False


LAYERS = {
    "causal": Layer(),
    "window": Layer(window=20),
    "slopes": Layer(slopes=[0.5, 0.25, 0.125, 0.0625]),
    "softcap and window": Layer(window=30, cap=3.0),
    "sinks": Layer(sinks=torch.tensor([0.5, -1.0, 2.0, 0.0])),
    "8 bits": Layer(is_narrow=True),
}


def expected(layer: Layer, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """[n, H, D] at the end of [m, HKV, D], in double precision."""
    q, k, v = (each.double().transpose(0, 1) for each in (q, k, v))
    k, v = (each.repeat_interleave(H // HKV, 0) for each in (k, v))
    s = q @ k.mT * D**-0.5
    if layer.cap is not None:
        s = layer.cap * torch.tanh(s / layer.cap)
    j = torch.arange(k.shape[1])
    i = j[k.shape[1] - q.shape[1] :, None]
    if layer.slopes is not None:
        s = s + torch.tensor(layer.slopes).double()[:, None, None] * (j - i)
    s = s.masked_fill(j > i, -torch.inf)
    if layer.window is not None:
        s = s.masked_fill(i - j >= layer.window, -torch.inf)
    if layer.sinks is not None:
        sink = layer.sinks.double()[:, None, None].expand(-1, s.shape[1], 1)
        s = torch.cat([s, sink], -1)
    p = s.softmax(-1)[..., : k.shape[1]]
    return (p @ v).transpose(0, 1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("name", LAYERS)
def test_steps_of_a_server(name: str, dtype: torch.dtype) -> None:
    layer = LAYERS[name]
    torch.manual_seed(1)
    config = SimpleNamespace(scheduler_config=SimpleNamespace(max_num_batched_tokens=64))
    backend = vllm_backend.TeselaBackend
    builder = backend.get_builder_cls()(None, ["layer"], config, torch.device("cpu"))
    impl = backend.get_impl_cls()(
        *(H, D, D**-0.5, HKV, layer.slopes, layer.window),
        "fp8" if layer.is_narrow else "auto",
        layer.cap,
        **({} if layer.sinks is None else {"sinks": layer.sinks}),
    )
    # [pages, heads, page, 2 D], in memory where the rows of all pages follow one another.
    memory = torch.full((PAGES, PAGE, HKV, 2 * D), torch.nan, dtype=dtype)
    if layer.is_narrow:
        memory = memory.to(torch.float8_e4m3fn).view(torch.uint8)
    cache = memory.transpose(1, 2)
    scales = torch.tensor(0.05 if layer.is_narrow else 1.0)
    of_layer = SimpleNamespace(_k_scale=scales, _v_scale=scales)
    table = torch.randperm(PAGES).int()[: 3 * MOST].reshape(3, MOST)
    histories: list[tuple[Tensor, Tensor]] = [(torch.zeros(0, HKV, D),) * 2] * 3
    for counts in ([20, 7, 0], [1, 15, 33], [1, 1, 1], [1, 0, 5], [1, 1, 1]):
        tokens = sum(counts)
        starts = torch.tensor([0, *counts]).cumsum(0)
        new = [torch.randn(tokens + 3, heads, D).to(dtype) for heads in (H, HKV, HKV)]
        slots = torch.full((tokens + 3,), -1)
        for b, count in enumerate(counts):
            rows = slice(int(starts[b]), int(starts[b + 1]))
            k, v = (each[rows].float() for each in new[1:])
            if layer.is_narrow:
                k, v = ((each / 0.05).to(torch.float8_e4m3fn).float() * 0.05 for each in (k, v))
            at = len(histories[b][0]) + torch.arange(count)
            slots[rows] = table[b].long()[at // PAGE] * PAGE + at % PAGE
            histories[b] = tuple(  # type: ignore[assignment]
                torch.cat(pair) for pair in zip(histories[b], (k, v), strict=True)
            )
        lengths = [len(each[0]) for each in histories]
        metadata = builder.build(
            0,
            CommonAttentionMetadata(
                query_start_loc=starts.int(),
                query_start_loc_cpu=starts.int(),
                seq_lens=torch.tensor(lengths, dtype=torch.int32),
                num_reqs=3,
                num_actual_tokens=tokens,
                max_query_len=max(counts),
                max_seq_len=max(lengths),
                block_table_tensor=table,
                slot_mapping=slots,
            ),
        )
        out = torch.full((tokens + 3, H, D), torch.nan, dtype=dtype)
        given = impl.forward(of_layer, *new, cache, metadata, out)
        assert given is out and bool(out[tokens:].isnan().all())
        limit = 1e-4 if dtype is torch.float32 else 3e-2
        for b in range(3):
            rows = slice(int(starts[b]), int(starts[b + 1]))
            if counts[b]:
                result = expected(layer, new[0][rows], *histories[b])
                torch.testing.assert_close(out[rows].double(), result, rtol=limit, atol=limit)


def test_what_it_says_of_itself() -> None:
    backend = vllm_backend.TeselaBackend
    assert backend.get_name() == "CUSTOM"
    assert backend.supports_head_size(128) and not backend.supports_head_size(512)
    with pytest.raises(NotImplementedError, match="attention of the type encoder"):
        backend.get_impl_cls()(H, D, 1.0, attn_type="encoder")
