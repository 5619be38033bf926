# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Threads, preparation, tuning, devices and the cache."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tesela
from reference import attention, check, random


def test_threads() -> None:
    """Several threads ask at once for a kernel that does not exist yet, at several lengths."""
    variant = tesela.variant("attention raced(w: i32) { mask = q - k < w || k == 1 }")
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for length in (3, 50, 130):
                q, k, v = (random(1, 2, length, 64, seed=number + i) for i in range(3))
                out = tesela.attention(q, k, v, variant, w=number)
                expected, _ = attention(
                    q, k, v, mask=lambda b, h, q, k: (q - k < number) | (k == 1)
                )
                check(out, expected)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_prepare() -> None:
    from tesela import _contexts

    text = "attention prepared(w: i32 = 5) { mask = q - k < w }"
    preparation = tesela.prepare(
        [text, tesela.Request("causal", dtype="float32", head_dim=40, length=1, device="host")],
        dtype=np.float32,
        head_dim=64,
        length=100,
        device="host",
    )
    preparation.wait()
    assert preparation.done
    compiled = _contexts.context(_contexts.HOST).compile_count
    q = random(1, 1, 100, 64, seed=1)
    check(tesela.attention(q, q, q, text), attention(q, q, q, mask=lambda b, h, q, k: q - k < 5)[0])
    assert _contexts.context(_contexts.HOST).compile_count == compiled


def test_a_fast_start_on_the_host() -> None:
    """Its kernels have no simple schedule, so they have the best one immediately."""
    text = "attention started(w: i32 = 6) { mask = q - k < w }"
    work = tesela.prepare([text], head_dim=16, dtype="float32", device="host", fast_start=True)
    work.wait(best=True)
    assert work.best


def test_prepare_tells_what_went_wrong() -> None:
    with pytest.raises(tesela.UnsupportedError, match="head dimension"):
        tesela.prepare(["causal"], head_dim=300, device="host").wait()
    with pytest.raises(tesela.InvalidArgumentError, match="the type is float64"):
        tesela.prepare(["causal"], dtype="float64", device="host")
    with pytest.raises(tesela.InvalidArgumentError, match=r"pass \['causal'\]"):
        tesela.prepare("causal", device="host")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"length": -1}, "length is -1, it must be a whole number from 0 to 2147479552"),
        ({"length": 2**70}, f"length is {2**70}"),
        ({"length": "8"}, "length is '8'"),
        ({"kv_length": 1.5}, "kv_length is 1.5"),
        ({"head_dim": "64"}, "head_dim is '64'"),
        (
            {"seconds": -1},
            "seconds is -1, it must be a finite number that is not negative: 0 means",
        ),
        ({"seconds": float("nan")}, "seconds is nan"),
        ({"seconds": float("inf")}, "seconds is inf"),
        ({"seconds": "1"}, "seconds is '1'"),
        ({"device": 3}, "the device is 3"),
    ],
)
def test_prepare_refuses_at_once(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(tesela.InvalidArgumentError, match=sentence):
        tesela.prepare(["causal"], **{"device": "host", **arguments})


def test_a_time_limit_below_a_millisecond_is_a_limit() -> None:
    text = "attention late(w: i32 = 7) { mask = q - k < w }"
    with pytest.raises(tesela.DeadlineExceededError):
        tesela.prepare([text], head_dim=64, device="host", seconds=0.0004).wait()


def test_a_device_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    tesela.prepare(["causal"], head_dim=16, dtype="float32", device=torch.device("cpu")).wait()
    with pytest.raises(tesela.InvalidArgumentError, match=r"the device is device\(type='meta'\)"):
        tesela.prepare(["causal"], device=torch.device("meta"))


@pytest.mark.parametrize("value", [-5, 2**70, 1.5])
def test_limits_of_the_cache(value: Any, tmp_path: Path) -> None:
    for name, call in (
        ("most_bytes", tesela.cache.limits),
        ("most_kernels", tesela.cache.limits),
        ("most_bytes", tesela.cache.prune),
        ("most_seconds_old", tesela.cache.prune),
    ):
        sentence = f"{name} is {value}, it must be a whole number from 0 to {2**63 - 1}: 0 means"
        with pytest.raises(tesela.InvalidArgumentError, match=sentence):
            call(folder=tmp_path, **{name: value})


@pytest.mark.parametrize("progress", [False, True])
def test_tune(progress: bool, capfd: pytest.CaptureFixture[str]) -> None:
    """A bar is shown where it is asked for, and nothing is printed elsewhere."""
    if progress:
        pytest.importorskip("tqdm")
    result = tesela.tune(
        "causal",
        length=64,
        heads=2,
        head_dim=32,
        dtype="float32",
        device="host",
        seconds=2,
        keep=False,
        progress=progress,
    )
    assert result.milliseconds > 0
    assert result.trials
    assert any(trial.is_heuristic for trial in result.trials)
    assert result.record == ""
    shown = capfd.readouterr()
    assert shown.out == ""
    assert ("x the heuristic's" in shown.err) == progress, shown.err
    assert progress or shown.err == ""


def test_devices() -> None:
    *gpus, host = tesela.devices()
    assert (host.kind, host.target, str(host)) == ("host", "host", "host")
    assert host.processors > 0 and host.memory_bytes > 0
    assert all(gpu.kind == "cuda" for gpu in gpus)
    with pytest.raises(tesela.InvalidArgumentError, match="the device is 'gpu'"):
        tesela.prepare(["causal"], device="gpu")


def test_cache(tmp_path: Path) -> None:
    program = f"""
import numpy as np, tesela
tesela.cache.limits(folder={str(tmp_path)!r}, most_bytes=50_000_000)
assert tesela.cache.kernels() == []
q = np.ones((1, 1, 4, 8), np.float32)
tesela.attention(q, q, q, "causal")
(kernel,) = tesela.cache.kernels(verify=True)
assert (kernel.variant, kernel.target, kernel.input_type) == ("causal", "host", "f32")
assert (kernel.head_dim_qk, kernel.head_dim_v, kernel.damage) == (8, 8, "")
assert kernel.bytes > 0 and kernel.made <= kernel.used.replace(second=59)
assert tesela.cache.folder() == {str(tmp_path)!r}
try:
    tesela.cache.limits()
except tesela.InvalidArgumentError as error:
    assert "before the first call" in str(error)
else:
    raise AssertionError
assert tesela.cache.prune(most_bytes=1 << 30) == (0, 0, kernel.bytes)
assert tesela.cache.clear() == (1, kernel.bytes, 0)
assert tesela.cache.kernels() == []
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_command() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tesela", "check", "causal"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "causal" in ran.stdout


@pytest.mark.parametrize("others", ["", "import torch; "])
def test_pytorch_is_imported_where_the_program_has_it(others: str) -> None:
    """The first call does not import what serves PyTorch; a program without PyTorch does not pay
    for it."""
    pytest.importorskip("torch")
    program = (
        others + "import sys, tesela; print('torch' in sys.modules, 'tesela.torch' in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True, timeout=120
    )
    assert ran.stdout.split() == [str(bool(others))] * 2


def test_what_failed_ahead_is_told_by_the_call() -> None:
    """The error is that of the first import, and the package still works for other frameworks."""
    pytest.importorskip("torch")
    program = (
        "import sys, types, torch\n"
        "sys.modules['tesela.torch'] = None\n"  # makes its import fail
        "import numpy, tesela\n"
        "x = numpy.ones((1, 1, 4, 16), numpy.float32)\n"
        "tesela.attention(x, x, x, 'full')\n"
        "del sys.modules['tesela.torch']\n"
        "x = torch.ones(1, 1, 4, 16)\n"
        "try:\n"
        "    tesela.attention(x, x, x, 'full')\n"
        "except ImportError as failure:\n"
        "    print(failure)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True, timeout=120
    )
    assert "tesela.torch" in ran.stdout
