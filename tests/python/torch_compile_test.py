# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tesela.attention with torch.compile and torch.export: no graph breaks, and few compilations."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the tests of the PyTorch layer need PyTorch")

import tesela  # noqa: E402
import tesela.torch  # noqa: E402
from torch import Tensor  # noqa: E402
from torch._dynamo.testing import CompileCounterWithBackend  # noqa: E402
from torch_tools import check, expected, inputs, random, window  # noqa: E402

LENGTHS = (37, 64, 100, 29)


def queries(lengths: Iterable[int] = LENGTHS) -> list[Tensor]:
    return [random(2, 4, length, 32, seed=length, dtype=torch.float32) for length in lengths]


def graphs(
    function: Callable[..., Any],
    calls: Iterable[tuple[Any, ...]],
    backend: str = "aot_eager",
    dynamic: bool | None = None,
) -> list[int]:
    """The number of graphs after each call. Results must be those of eager mode."""
    torch.compiler.reset()
    counter = CompileCounterWithBackend(backend)
    compiled = torch.compile(function, fullgraph=True, backend=counter, dynamic=dynamic)
    counts = []
    for arguments in calls:
        torch.testing.assert_close(compiled(*arguments), function(*arguments))
        counts.append(counter.frame_count)
    return counts


# As with any function: a second length makes a second graph, which is for all lengths.
ONE = [1, 1, 1, 1]
TWO = [1, 2, 2, 2]


def test_lengths() -> None:
    calls = [(q,) for q in queries()]
    assert graphs(lambda q: tesela.attention(q, q, q), calls) == TWO
    assert graphs(lambda q: tesela.attention(q, q, q, "causal"), calls, dynamic=True) == ONE

    def bshd(q: Tensor) -> Any:
        return tesela.attention(q, q, q, "causal", return_lse=True, layout="bshd")

    assert graphs(bshd, calls, dynamic=True) == ONE
    swapped = [(q.transpose(1, 2).contiguous().transpose(1, 2),) for q in queries()]
    assert graphs(lambda q: tesela.attention(q, q, q), swapped, dynamic=True) == ONE


def test_inductor() -> None:
    def model(q: Tensor) -> Any:
        out, lse = tesela.attention(q * 2, q, q, "causal", return_lse=True)
        return out + 1, lse * 2

    assert graphs(model, [(q,) for q in queries()[:3]], "inductor", dynamic=True) == [1, 1, 1]


def test_out() -> None:
    def into(q: Tensor) -> Tensor:
        out = torch.empty_like(q)
        return tesela.attention(q, q, q, out=out) + out

    assert graphs(into, [(q,) for q in queries()], dynamic=True) == ONE


def test_scalars() -> None:
    (q,) = queries([37])

    def by_argument(q: Tensor, size: int) -> Any:
        return tesela.attention(q, q, q, "sliding_window", window=size)

    assert graphs(by_argument, [(q, size) for size in (5, 9, 12, 33)]) == TWO

    def bound(q: Tensor, variant: tesela.Variant) -> Any:
        return tesela.attention(q, q, q, variant)

    windows = [tesela.variant("sliding_window", window=size) for size in (5, 9, 12, 33)]
    assert graphs(bound, [(q, each) for each in windows]) == TWO
    caps = [tesela.variant("softcap", cap=cap) for cap in (5.5, 9.25, 12.0, 33.125)]
    assert graphs(bound, [(q, each) for each in caps]) == TWO

    def capped(q: Tensor, cap: Any) -> Any:
        return tesela.attention(q, q, q, "softcap", cap=cap)

    assert graphs(capped, [(q, cap) for cap in (5.5, 9.25, 12.0, 33.125)]) == TWO
    assert graphs(capped, [(q, torch.tensor(cap)) for cap in (5.5, 9.25, 12.0, 33.125)]) == ONE


def test_captured_tensors() -> None:
    (q,) = queries([37])
    slopes = [torch.rand(4) for _ in range(4)]

    def bound(q: Tensor, variant: tesela.Variant) -> Any:
        return tesela.attention(q, q, q, variant)

    assert graphs(bound, [(q, tesela.variant("alibi", slope=each)) for each in slopes]) == ONE

    def by_argument(q: Tensor, slope: Tensor) -> Any:
        return tesela.attention(q, q, q, "alibi", slope=slope)

    assert graphs(by_argument, [(q, each) for each in slopes]) == ONE


def test_another_variant_is_another_graph() -> None:
    (q,) = queries([37])
    texts = ["attention t { mask = q >= k }", "attention t { mask = q <= k }"]

    def bound(q: Tensor, variant: Any) -> Any:
        return tesela.attention(q, q, q, variant)

    variants = [tesela.variant(text) for text in texts]
    assert graphs(bound, [(q, each) for each in variants + variants]) == [1, 2, 2, 2]
    assert graphs(bound, [(q, each) for each in texts + texts]) == [1, 2, 2, 2]
    scalar = "attention t(n: i32 = {}) {{ mask = q + n >= k }}"
    variants = [tesela.variant(scalar.format(n), n=n) for n in (0, 5)]
    assert graphs(bound, [(q, each) for each in variants]) == [1, 2]


def test_module() -> None:
    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.project = torch.nn.Linear(32, 96)
            self.variant = tesela.variant("sliding_window", window=7)

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = self.project(x).unflatten(-1, (3, 32)).unbind(-2)
            return tesela.attention(q, k, v, self.variant)

    with torch.no_grad():
        assert graphs(Layer(), [(q,) for q in queries()], dynamic=True) == ONE


def test_autocast() -> None:
    def model(q: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return tesela.attention(q, q, q)

    (q,) = queries([37])
    assert graphs(model, [(q,)]) == [1]
    assert model(q).dtype is torch.bfloat16


def test_mistakes_are_found_while_it_compiles() -> None:
    (q,) = queries([37])
    with pytest.raises(Exception, match="four axes"):
        graphs(lambda q: tesela.attention(q, q, q[0]), [(q,)])
    with pytest.raises(Exception, match=r"torch\.float64"):
        graphs(lambda q: tesela.attention(q, q, q), [(q.double(),)])
    text = "attention local(const reach: f32 = 4) { score = s - reach }"
    reach = torch.tensor(4.0, requires_grad=True)
    with pytest.raises(Exception, match=r"'reach' requires a gradient"):
        graphs(lambda q: tesela.attention(q, q, q, text, reach=reach), [(q,)])


def test_arguments_that_compiled_code_cannot_read() -> None:
    (q,) = queries([37])
    value, generator = torch.tensor(0.5), torch.Generator()
    for function, sentence in (
        (lambda q: tesela.attention(q, q, q, scale=value), r"scale is a tensor.*score = s \*"),
        (lambda q: tesela.attention(q, q, q, dropout_p=value), r"dropout_p is a tensor.*item\(\)"),
        (
            lambda q: tesela.attention(q, q, q, dropout_p=0.5, seed=generator),
            r"the seed is a torch\.Generator.*draw seed = torch\.randint",
        ),
        (
            lambda q: tesela.torch.scaled_dot_product_attention(q, q, q, scale=value),
            "scale is a tensor",
        ),
    ):
        with pytest.raises(Exception, match=sentence):
            graphs(function, [(q,)])


class Windowed(torch.nn.Module):
    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return tesela.attention(q, k, v, "sliding_window", window=9)


def test_export() -> None:
    q, k, v = inputs(heads=4)
    length = torch.export.Dim("length", min=2, max=4096)
    axes = ({2: length}, {2: length}, {2: length})
    square = (q, k[:, :, :37].contiguous(), v[:, :, :37].contiguous())
    exported = torch.export.export(Windowed(), square, dynamic_shapes=axes)
    file = io.BytesIO()
    torch.export.save(exported, file)
    file.seek(0)
    loaded = torch.export.load(file).module()
    for queries in (37, 111):
        q, k, v = inputs(heads=4, queries=queries, keys=queries)
        check(loaded(q, k, v), expected(q, k, v, mask=window(9))[0])


FRESH = """
import tesela, torch
q = torch.randn(1, 2, 33, 32)
def causal(q):
    return tesela.attention(q, q, q, "causal")
out = torch.compile(causal, fullgraph=True, backend="aot_eager")(q)
torch.testing.assert_close(out, causal(q))
"""


def test_first_call_of_a_process() -> None:
    """The first use of Tesela may be in compiled code, before anything was imported or read."""
    subprocess.run([sys.executable, "-c", FRESH], check=True)


def test_make_fx() -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    (q,) = queries([37])
    graph = make_fx(lambda q: tesela.attention(q, q, q, "causal"), tracing_mode="symbolic")(q)
    names = [str(node.target) for node in graph.graph.nodes]
    assert "tesela.attention.default" in names
    (other,) = queries([50])
    torch.testing.assert_close(graph(other), tesela.attention(other, other, other, "causal"))
