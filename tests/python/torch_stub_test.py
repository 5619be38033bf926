# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which functions of PyTorch an eager CUDA call uses, on the driver's stub, which has two GPUs.

A separate process pretends that PyTorch's tensors in host memory are CUDA tensors. Nothing is
computed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tesela

pytest.importorskip("torch", reason="the tests of the PyTorch layer need PyTorch")
STUB = Path(tesela.__file__).parents[2] / "tests" / "cuda-stub"
SOURCES = Path(__file__).parents[1] / "cuda-stub"

PROGRAM = r"""
import json, sys
import torch

DEVICE, CURRENT = map(int, sys.argv[1:3])
sys.path.insert(0, sys.argv[3])
import torch_on_stub

asked = []
torch_on_stub.show_as_cuda(DEVICE, lambda kind, device: asked.append(["stream", kind, device]))


def made(shape, strides, dtype):
    if dtype is torch.bool:  # bytes for a workspace
        return torch_on_stub.new_workspace(*shape).view(dtype)
    return torch.empty_strided(shape, strides, dtype=dtype)


def quick(shape, strides, dtype):
    asked.append(["current", shape, strides, str(dtype)])
    return made(shape, strides, dtype)


def elsewhere(shape, strides, dtype, device):
    asked.append(["elsewhere", shape, strides, str(dtype), device])
    return made(shape, strides, dtype)


torch._C._cuda_getDevice = lambda: CURRENT
torch._C._dynamo.guards._empty_strided_cuda = quick
import tesela
from tesela.torch import _dispatch, _launch

_launch._empty_on = elsewhere
_dispatch._attend = _launch.make_eager(_launch.QUICK).attend
q = torch.ones(2, 4, 33, 64, dtype=torch.bfloat16)
swapped = q.transpose(1, 2).contiguous().transpose(1, 2)
seen = []
for arguments, options in (
    ((q, q, q, "causal"), {}),
    ((swapped, q, q[..., :32], "causal"), {"return_lse": True}),
    ((q, q, q, "causal"), {"out": q.clone()}),
    ((q, q, q, "documents"), {"id": torch.zeros(2, 33, dtype=torch.int32)}),
    ((q.float(),) * 3, {}),
):
    asked.clear()
    try:
        tesela.attention(*arguments, **options)
    except tesela.UnsupportedError as error:
        asked.append(["error"])
    seen.append(list(asked))
print(json.dumps(seen))
"""


def asked(tmp_path: Path, device: int, current: int) -> Any:
    if not (STUB / "libcuda.so.1").exists():
        pytest.skip(f"NO STUB: {STUB} has no libcuda.so.1")
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(STUB),
        "TESELA_CACHE_DIR": str(tmp_path),
    }
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(device), str(current), str(SOURCES)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.parametrize(("device", "current"), [(0, 0), (1, 0)])
def test_what_is_asked(tmp_path: Path, device: int, current: int) -> None:
    """Outputs and workspaces are on the tensors' device, and the stream is that device's."""
    plain, swapped, given, documents, refused = asked(tmp_path, device, current)

    def output(shape: list[int], strides: list[int], dtype: str) -> list[Any]:
        if device == current:
            return ["current", shape, strides, dtype]
        return ["elsewhere", shape, strides, dtype, device]

    stream = ["stream", 2, device]
    whole = output([2, 4, 33, 64], [8448, 2112, 64, 1], "torch.bfloat16")
    assert plain == [whole, stream]
    assert swapped == [
        output([2, 4, 33, 32], [4224, 32, 128, 1], "torch.bfloat16"),
        output([2, 4, 33], [132, 33, 1], "torch.float32"),
        stream,
    ]
    assert given == [stream]
    workspace = documents.pop()
    assert documents == [whole, stream]
    (count,) = workspace[1]
    assert count > 0 and workspace == output([count], [1], "torch.bool")
    assert refused == [["error"]]
