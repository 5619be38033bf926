# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradients by PyTorch's autograd on CUDA. Needs a GPU, and is skipped without one."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the tests of the PyTorch layer need PyTorch")

import tesela  # noqa: E402
import tesela.torch  # noqa: E402
from gradient_variants import CASES, PARAMETER_CASES, Case, reference_gradients  # noqa: E402
from torch import Tensor  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from torch_gradient_tools import (  # noqa: E402
    Gradients,
    attention_by_parts,
    check,
    check_parameters,
    exact_loss_gradients,
    gradients,
    leaves,
    loss_gradients,
    z_loss,
)
from torch_tools import inputs, random  # noqa: E402

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="NO GPU: torch.cuda.is_available() is false"
)
several = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="ONE GPU: it needs two")

BF16, F16 = torch.bfloat16, torch.float16
CAUSAL = CASES[1]


def on_gpu(**sizes: Any) -> tuple[Tensor, Tensor, Tensor]:
    return inputs(**{"device": "cuda", "dtype": BF16, **sizes})


def gradient_of(q: Tensor, v: Tensor) -> Tensor:
    return random(*q.shape[:3], v.shape[3], seed=4, dtype=q.dtype, device=str(q.device))


def on_device(parameters: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value.cuda() if isinstance(value, Tensor) else value
        for name, value in parameters.items()
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_variants(case: Case) -> None:
    q, k, v = on_gpu(**case.sizes)
    parameters = on_device(case.parameters())
    grad = gradient_of(q, v)
    actual = gradients(lambda *a: tesela.attention(*a, case.variant, **parameters), (q, k, v), grad)
    wanted = reference_gradients(q, k, v, grad, case, parameters)
    check(actual, Gradients(*wanted), BF16)


@pytest.mark.parametrize("case", PARAMETER_CASES, ids=lambda case: case.name)
def test_parameters(case: Case) -> None:
    check_parameters(case, BF16, "cuda")


SIZES = [
    {"queries": 1, "keys": 1},
    {"queries": 1, "keys": 1000, "batch": 3},
    {"queries": 515, "keys": 300},
    {"queries": 129, "keys": 257, "head_dim": 72, "head_dim_v": 40},
    {"queries": 300, "keys": 301, "head_dim": 128, "kv_heads": 1},
    {"queries": 200, "keys": 200, "head_dim": 256, "batch": 1},
    {"queries": 200, "keys": 100, "head_dim": 192, "head_dim_v": 128, "batch": 1},
    {"queries": 2048, "keys": 2048, "head_dim": 128, "batch": 1},
    {"queries": 1030, "keys": 999, "head_dim": 128, "batch": 1, "heads": 8, "kv_heads": 1},
    {"queries": 1030, "keys": 999, "head_dim": 64, "batch": 1, "heads": 8, "kv_heads": 1},
    {"queries": 1030, "keys": 999, "head_dim": 256, "batch": 1, "heads": 8, "kv_heads": 1},
]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize(("dtype", "layout"), [(BF16, "bhsd"), (F16, "bshd")])
def test_sizes(sizes: dict[str, int], dtype: Any, layout: Any) -> None:
    q, k, v = on_gpu(**sizes, dtype=dtype)
    grad = gradient_of(q, v)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if layout == "bhsd":
            return tesela.attention(q, k, v, "causal")
        swapped = (each.transpose(1, 2) for each in (q, k, v))
        return tesela.attention(*swapped, "causal", layout=layout).transpose(1, 2)

    wanted = Gradients(*reference_gradients(q, k, v, grad, CAUSAL, {}))
    check(gradients(attend, (q, k, v), grad), wanted, dtype)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_z_loss(case: Case) -> None:
    dense = on_gpu(**case.sizes)
    parameters = on_device(case.parameters())

    def attend(*dense: Tensor) -> Any:
        return tesela.attention(*dense, case.variant, return_lse=True, **parameters)

    wanted = exact_loss_gradients(dense, case, parameters, z_loss)
    check(loss_gradients(attend, dense, z_loss), wanted, BF16)


def test_merged_parts_of_the_keys() -> None:
    dense = on_gpu(queries=300, keys=700, head_dim=128)
    check(
        loss_gradients(attention_by_parts([300, 1, 399]), dense, z_loss),
        exact_loss_gradients(dense, CASES[0], {}, z_loss),
        BF16,
    )


@pytest.mark.usefixtures("same_bits")
def test_zeros_of_the_logarithms_give_the_same_bits() -> None:
    given = leaves(*on_gpu(queries=515, keys=300, head_dim=128))
    out, lse = tesela.attention(*given, "causal", return_lse=True)
    grad = gradient_of(out, out)
    without = torch.autograd.grad(out, given, grad, retain_graph=True)
    zeros = torch.autograd.grad((out, lse), given, (grad, torch.zeros_like(lse)))
    assert all(map(torch.equal, zeros, without))


def test_without_pairs() -> None:
    q, k, v = on_gpu(keys=0)
    dq, _, _ = gradients(lambda *a: tesela.attention(*a), (q, k, v), torch.ones_like(q))
    assert (dq == 0).all()
    q, k, v = on_gpu(queries=0)
    _, dk, dv = gradients(lambda *a: tesela.attention(*a), (q, k, v), torch.ones_like(q))
    assert (dk == 0).all() and (dv == 0).all()


@pytest.mark.usefixtures("same_bits")
@pytest.mark.parametrize("name", ["transposed", "columns first", "unaligned", "padded", "expanded"])
def test_strides_of_the_gradient(name: str) -> None:
    q, k, v = on_gpu(queries=300, keys=200)
    grad = gradient_of(q, v)
    strided = {
        "transposed": lambda: grad.transpose(1, 2).contiguous().transpose(1, 2),
        "columns first": lambda: grad.mT.contiguous().mT,
        "unaligned": lambda: torch.nn.functional.pad(grad, (3, 5))[..., 3:-5],
        "padded": lambda: torch.nn.functional.pad(grad, (8, 8))[..., 8:-8],
        "expanded": lambda: grad[:, :1, :1, :1].expand_as(grad),
    }[name]()

    def attend(*dense: Tensor) -> Tensor:
        return tesela.attention(*dense, "causal")

    wanted = gradients(attend, (q, k, v), strided.contiguous())
    actual = gradients(attend, (q, k, v), strided)
    assert all(map(torch.equal, actual, wanted))


@pytest.mark.parametrize("name", ["causal", "documents_causal", "relative_bias"])
@pytest.mark.usefixtures("same_bits")
def test_a_hundred_launches_have_the_same_bits(name: str) -> None:
    """On two streams, with other work on the device at the same time."""
    case = next(each for each in CASES if each.name == name)
    length = 61 if "documents" in name else 1500
    q, k, v = on_gpu(queries=length, keys=length, head_dim=128, kv_heads=2)
    parameters = on_device(case.parameters())
    given = leaves(q, k, v)
    grad = gradient_of(q, v)
    streams = [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()
    outs = []
    for stream in streams:  # the backward pass runs on the forward pass's stream
        with torch.cuda.stream(stream):
            outs.append(tesela.attention(*given, case.variant, **parameters))
    torch.cuda.synchronize()
    first = torch.autograd.grad(outs[0], given, grad, retain_graph=True)
    noise = torch.randn(4096, 4096, device="cuda", dtype=BF16)
    torch.cuda.synchronize()
    for turn in range(100):
        noise @ noise
        with torch.cuda.stream(streams[turn % 2]):
            found = torch.autograd.grad(outs[turn % 2], given, grad, retain_graph=True)
        torch.cuda.synchronize()
        assert all(map(torch.equal, found, first)), f"launch {turn} has other bits"


@pytest.mark.usefixtures("same_bits")
def test_graphed_step() -> None:
    q, k, v = on_gpu(queries=300, keys=300)

    def layer(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return tesela.attention(q, k, v, "causal") * 2

    gradients(layer, (q, k, v), gradient_of(q, v))  # compiles
    graphed = torch.cuda.make_graphed_callables(layer, tuple(leaves(q, k, v)))
    for turn in range(3):
        dense = tuple(each.roll(turn, 2) for each in (q, k, v))
        grad = gradient_of(q, v).roll(turn, 2)
        given = leaves(*dense)
        actual = torch.autograd.grad(graphed(*given), given, grad)
        wanted = gradients(layer, dense, grad)
        assert all(map(torch.equal, actual, wanted))


@pytest.mark.usefixtures("same_bits")
def test_streams() -> None:
    """The backward pass runs on the stream of the forward pass."""
    q, k, v = on_gpu(queries=500, keys=500)
    grad = gradient_of(q, v)
    wanted = gradients(lambda *a: tesela.attention(*a, "causal"), (q, k, v), grad)
    given = leaves(q, k, v)
    late = torch.full_like(grad, torch.nan)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        out = tesela.attention(*given, "causal")
        torch.cuda._sleep(100_000_000)
        late.copy_(grad)
        found = torch.autograd.grad(out, given, late)
        assert not stream.query(), "the launch waited for the GPU"
    torch.cuda.synchronize()
    assert all(map(torch.equal, found, wanted))


def test_memory() -> None:
    """Kept are the result and the logarithms. The backward pass allocates L, D, and sums of dq, dk
    and dv; those of dk and dv because few heads of keys are shared (docs/training.md)."""
    q, k, v = on_gpu(queries=8192, keys=8192, batch=1)
    given, grad = leaves(q, k, v), gradient_of(q, v)
    torch.autograd.grad(tesela.attention(*given, "causal"), given, grad)
    torch.cuda.synchronize()
    rows = q.shape[1] * q.shape[2] * 4
    before = torch.cuda.memory_allocated()
    out = tesela.attention(*given, "causal")
    kept = torch.cuda.memory_allocated() - before
    assert kept == out.numel() * 2 + rows
    torch.cuda.reset_peak_memory_stats()
    base = torch.cuda.memory_allocated()
    found = torch.autograd.grad(out, given, grad)
    torch.cuda.synchronize()
    results = sum(each.numel() * 2 for each in found)
    sums = 3 * q.numel() * 4
    assert torch.cuda.max_memory_allocated() - base <= results + 2 * rows + sums + (1 << 20)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_compiled_step(mode: str) -> None:
    slope = torch.rand(6, device="cuda") / 8

    def step(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (tesela.attention(q * 2, k, v, "alibi", slope=slope) + 1).float().sin().sum()

    torch.compiler.reset()
    compiled = torch.compile(step, fullgraph=True, mode=mode)
    q, k, v = on_gpu(queries=300, keys=300)
    for turn in range(4):
        torch.compiler.cudagraph_mark_step_begin()
        given = leaves(q.roll(turn, 2), k, v)
        actual = [each.clone() for each in torch.autograd.grad(compiled(*given), given)]
        for got, exact in zip(actual, torch.autograd.grad(step(*given), given), strict=True):
            error = (got.float() - exact.float()).norm()
            assert error <= 1e-2 * exact.float().norm()


def test_autocast_and_checkpoint() -> None:
    q, k, v = on_gpu(queries=200, keys=200, dtype=torch.float32)
    grad = random(*q.shape, seed=4, dtype=F16, device="cuda")

    def layer(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return tesela.attention(q, k, v, "causal")

    halves = gradients(layer, tuple(each.half() for each in (q, k, v)), grad)
    with torch.autocast("cuda", dtype=F16):
        for function in (layer, lambda *a: checkpoint(layer, *a, use_reentrant=False)):
            found = gradients(function, (q, k, v), grad)
            for got, exact in zip(found, halves, strict=True):
                assert got.dtype is torch.float32
                assert torch.equal(got, exact.float())


@several
def test_several_devices() -> None:
    assert torch.cuda.current_device() == 0
    q, k, v = on_gpu(device="cuda:1")
    grad = gradient_of(q, v)
    wanted = Gradients(*reference_gradients(q, k, v, grad, CAUSAL, {}))
    check(gradients(lambda *a: tesela.attention(*a, "causal"), (q, k, v), grad), wanted, BF16)
