# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PyTorch and the C API on two GPUs in one process. Needs two GPUs, and is skipped with fewer.

    PYTHONPATH=build/release/python python3 -m pytest -rs tests/python/gpu_two_devices_test.py

The first GPU is PyTorch's current one, except where a test says otherwise. Most mistakes would then
run on it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the tests of the PyTorch layer need PyTorch")

import tesela  # noqa: E402
import tesela.torch  # noqa: E402
from gradient_variants import CASES  # noqa: E402
from torch import Tensor  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch_gradient_tools import check_parameters, gradients  # noqa: E402
from torch_tools import attend, causal, check, check_lse, expected, inputs, random  # noqa: E402

COUNT = torch.cuda.device_count()
pytestmark = pytest.mark.skipif(COUNT < 2, reason=f"TWO GPUS ARE NEEDED, there are {COUNT}")

BOTH = ("cuda:0", "cuda:1")
BF16 = torch.bfloat16


def dense(device: str, **sizes: Any) -> tuple[Tensor, Tensor, Tensor]:
    return inputs(**{"device": device, "dtype": BF16, **sizes})


def hold(device: str) -> tuple[Callable[[], Tensor], Tensor, Tensor]:
    """Attention over documents on a device, which needs a captured tensor and a workspace there."""
    q, k, v = dense(device, queries=300, keys=300)
    ids = torch.arange(300).div(70, rounding_mode="floor").repeat(2, 1)
    same = (ids[:, None, :, None] == ids[:, None, None, :]).numpy()
    wanted, lse = expected(q, k, v, mask=lambda b, h, q, k: same)
    on_device = ids.to(device, torch.int32)
    return lambda: attend(q, k, v, "documents", id=on_device, return_lse=True), wanted, lse


@pytest.mark.parametrize("current", [0, 1])
def test_both_in_turns(current: int) -> None:
    with torch.cuda.device(current):
        calls = [hold(device) for device in (*BOTH, *BOTH)]
        for call, wanted, logarithms in calls:
            out, lse = call()
            check(out, wanted)
            check_lse(lse, logarithms)
        assert torch.cuda.current_device() == current, "a call changed the current device"


@pytest.mark.parametrize("device", BOTH)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_results_lie_where_the_tensors_do(device: str, dtype: Any) -> None:
    q, k, v = dense(device, queries=129, keys=200, head_dim=128, dtype=dtype)
    wanted, logarithms = expected(q, k, v, mask=causal)
    out, lse = attend(q, k, v, "causal", return_lse=True)
    assert str(out.device) == str(lse.device) == device
    check(out, wanted)
    check_lse(lse, logarithms)
    given = torch.full_like(q, torch.nan)
    assert tesela.attention(q, k, v, "causal", out=given) is given
    check(given, wanted)


def test_same_bits_on_both() -> None:
    first, second = (attend(*dense(device, queries=777, keys=777), "causal") for device in BOTH)
    if torch.cuda.get_device_name(0) == torch.cuda.get_device_name(1):
        assert torch.equal(first.cpu(), second.cpu())


@pytest.mark.parametrize("current", [0, 1])
@pytest.mark.parametrize("other", ["q", "k", "v", "o", "slope"])
def test_another_device_is_refused(other: str, current: int) -> None:
    """The message names both devices, and nothing was launched that would fail later."""
    here, there = BOTH
    given = dict(zip("qkv", dense(here), strict=True))
    given["o"] = torch.full_like(given["q"], torch.nan)
    given["slope"] = torch.rand(6, device=here)
    given[other] = given[other].to(there)
    q, k, v, o, slope = given.values()
    named = {"k": "k", "v": "v", "o": "o", "slope": "'slope'"}.get(other, "k")  # q says where
    with (
        torch.cuda.device(current),
        pytest.raises(tesela.InvalidArgumentError, match=named) as error,
    ):
        tesela.attention(q, k, v, "alibi", slope=slope, out=o)
    assert "cuda:0" in str(error.value) and "cuda:1" in str(error.value)
    for device in (0, 1):
        torch.cuda.synchronize(device)
    assert o.isnan().all()
    q, k, v = dense(there)
    check(attend(q, k, v), expected(q, k, v)[0])


@pytest.mark.parametrize("device", BOTH)
def test_streams(device: str) -> None:
    """A launch is on its own device's current stream, after the work that delays its inputs
    there."""
    q, k, v = dense(device, queries=500, keys=500)
    wanted = expected(q, k, v, mask=causal)[0]
    attend(q, k, v, "causal")
    torch.cuda.synchronize(device)
    late = torch.full_like(q, torch.nan)
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        late.copy_(q)
        out = tesela.attention(late, k, v, "causal")
    stream.synchronize()
    check(out, wanted)


def test_streams_of_both_at_once() -> None:
    """The devices do not wait for each other. The current stream of one is not the current
    device's."""
    calls, streams = [hold(device) for device in BOTH], [torch.cuda.Stream(each) for each in BOTH]
    for device in (0, 1):
        torch.cuda.synchronize(device)
    results = []
    for _ in range(3):
        for (call, *wanted), stream in zip(calls, streams, strict=True):
            with torch.cuda.stream(stream):
                results.append((call(), wanted))
    for stream in streams:
        stream.synchronize()
    for (out, lse), (wanted, logarithms) in results:
        check(out, wanted)
        check_lse(lse, logarithms)


def test_threads() -> None:
    """Each thread has its own device, and does not change another thread's."""
    failures: list[BaseException] = []

    def work(index: int) -> None:
        try:
            device = BOTH[index % 2]
            torch.cuda.set_device(device)
            q, k, v = dense(device, queries=200 + 10 * index, keys=300)
            wanted = expected(q, k, v, mask=causal)[0]
            results = [tesela.attention(q, k, v, "causal") for _ in range(50)]
            check(results[0], wanted)
            assert all(torch.equal(each, results[0]) for each in results)
            assert torch.cuda.current_device() == index % 2
        except BaseException as error:  # the test's main thread reports it
            failures.append(error)

    threads = [Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


@pytest.mark.parametrize("device", BOTH)
def test_gradients(device: str) -> None:
    q, k, v = dense(device, queries=200, keys=200, kv_heads=6)
    grad = random(*q.shape, seed=4, dtype=BF16, device=device)
    got = gradients(lambda *a: tesela.attention(*a, "causal"), (q, k, v), grad)

    def exact(*given: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(*given, is_causal=True)

    wide = tuple(each.double() for each in (q, k, v))
    leaves = [each.requires_grad_() for each in wide]
    wanted = torch.autograd.grad(exact(*leaves), leaves, grad.double())
    for name, one, other in zip("qkv", got, wanted, strict=True):
        assert str(one.device) == device
        error = (one.double() - other).norm() / other.norm()
        assert error < 2e-2, f"d{name} is wrong by {error}"


@pytest.mark.parametrize("name", ["alibi", "relative_bias"])
def test_gradients_of_captured_tensors(name: str) -> None:
    (case,) = (each for each in CASES if each.name == name)
    check_parameters(case, BF16, BOTH[1])


def test_a_model_on_both() -> None:
    """One layer on each device, one after the other, forward and backward."""
    q, k, v = (each.detach().requires_grad_() for each in dense(BOTH[0], kv_heads=6, keys=37))
    middle = tesela.attention(q, k, v, "causal").to(BOTH[1])
    out = tesela.attention(middle, k.to(BOTH[1]), v.to(BOTH[1]), "causal")
    out.float().square().mean().backward()
    wide = [each.detach().double().requires_grad_() for each in (q, k, v)]
    sdpa = functional.scaled_dot_product_attention
    again = sdpa(sdpa(*wide, is_causal=True), wide[1], wide[2], is_causal=True)
    again.square().mean().backward()
    for one, other in zip((q, k, v), wide, strict=True):
        assert str(one.grad.device) == BOTH[0]
        assert (one.grad.double() - other.grad).norm() < 3e-2 * other.grad.norm()


@pytest.mark.parametrize("device", BOTH)
def test_graphs(device: str) -> None:
    """A graph captured on either device, with a workspace, runs again on other values."""
    q, k, v = dense(device, queries=300, keys=300)
    ids = torch.zeros((2, 300), dtype=torch.int32, device=device)
    with torch.cuda.device(device):
        tesela.attention(q, k, v, "documents", id=ids)
        graph = torch.cuda.CUDAGraph()
        # Without a stream, PyTorch would use one of the device that was captured first.
        with torch.cuda.graph(graph, stream=torch.cuda.Stream(device)):
            out = tesela.attention(q, k, v, "documents", id=ids)
    for width in (50, 120):
        numbers = np.arange(300) // width
        ids.copy_(torch.from_numpy(numbers).repeat(2, 1))
        same = numbers[:, None] == numbers[None, :]
        out.fill_(torch.nan)
        graph.replay()
        torch.cuda.synchronize(device)
        check(out, expected(q, k, v, mask=lambda b, h, q, k, same=same: same)[0])


@pytest.mark.parametrize("device", BOTH)
def test_through_the_operator(device: str) -> None:
    q, k, v = dense(device)
    wanted = expected(q, k, v, mask=causal)[0]
    compiled = torch.compile(
        lambda *a: tesela.attention(*a, "causal"), backend="aot_eager", fullgraph=True
    )
    out = compiled(q, k, v)
    assert str(out.device) == device
    check(out, wanted)
    q, k, v = dense(device, kv_heads=6)
    check(
        tesela.torch.scaled_dot_product_attention(q, k, v, is_causal=True),
        expected(q, k, v, mask=causal)[0],
    )


def test_what_is_there() -> None:
    found = [each for each in tesela.devices() if each.target.startswith("sm_")]
    assert len(found) == COUNT


# The C API, with memory of PyTorch.


def library() -> Any:
    sys.path.insert(0, str(Path(__file__).parents[2] / "tools" / "bench"))
    import c_api

    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    path = next(line.split()[-1] for line in maps if "libtesela.so" in line)
    return c_api, c_api.Library(path)


def test_c_api() -> None:
    """A context for each device: launches in turn, and refusal of a tensor on the other device."""
    c_api, loaded = library()
    contexts = [loaded.context(device) for device in BOTH]
    text = "attention plain() { mask = q >= k }"
    kernels = [each.compile(text, "bf16", 64, 64) for each in contexts]

    def views(index: int, tensors: list[Tensor]) -> dict[str, Any]:
        made = {}
        for name, each in zip(("q", "k", "v", "o"), tensors, strict=True):
            made[name] = c_api.tensor(each.data_ptr(), "bf16", each.shape, each.stride())
            made[name].memory, made[name].device_index = 2, index  # TESELA_MEMORY_CUDA
        return made

    for index in (0, 1, 0, 1):
        q, k, v = dense(BOTH[index], queries=100, keys=150)
        o = torch.full_like(q, torch.nan)
        stream = torch.cuda.Stream(index)
        torch.cuda.synchronize(index)
        given = views(index, [q, k, v, o])
        kernels[index].tensor_launcher(given, stream=stream.cuda_stream)()
        stream.synchronize()
        check(o, expected(q, k, v, mask=causal)[0])
        with pytest.raises(c_api.Error, match=f"q is in the memory of cuda:{index}"):
            kernels[1 - index].tensor_launcher(given)()
