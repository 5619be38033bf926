# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What an eager call on CUDA asks of PyTorch; on the stub of the driver, which has two GPUs.

A process of its own takes PyTorch's tensors in the host's memory for tensors of CUDA. Nothing is
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

PROGRAM = r"""
import ctypes, json, sys
import torch

DEVICE, CURRENT = map(int, sys.argv[1:3])
asked = []


class View(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_index", ctypes.c_int32), ("rest", ctypes.c_byte * 40)]


# DLPack's exchange interface of PyTorch, whose tensors say that they are CUDA's.
Exchange = ctypes.c_void_p * 7
ask_view = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(View))
ask_stream = ctypes.PYFUNCTYPE(
    ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
api, name = ctypes.pythonapi, ctypes.create_string_buffer(b"dlpack_exchange_api")
api.PyCapsule_GetPointer.restype = ctypes.c_void_p
api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_void_p]
api.PyCapsule_New.restype = ctypes.py_object
api.PyCapsule_New.argtypes = [ctypes.c_void_p] * 3
place = ctypes.addressof(name)
exchange = Exchange.from_buffer_copy(
    Exchange.from_address(
        api.PyCapsule_GetPointer(torch.Tensor.__dlpack_c_exchange_api__, place)))
pytorchs = ask_view(exchange[5])


@ask_view
def view(tensor, result):
    code = pytorchs(tensor, result)
    result.contents.device_type, result.contents.device_index = 2, DEVICE
    return code


@ask_stream
def stream(kind, device, result):
    asked.append(["stream", kind, device])
    result[0] = None
    return 0


exchange[5], exchange[6] = (ctypes.cast(each, ctypes.c_void_p).value for each in (view, stream))
torch.Tensor.__dlpack_c_exchange_api__ = api.PyCapsule_New(
    ctypes.addressof(exchange), place, None)


def quick(shape, strides, dtype):
    asked.append(["current", shape, strides, str(dtype)])
    return torch.empty_strided(shape, strides, dtype=dtype)


def elsewhere(shape, strides, dtype, device):
    asked.append(["elsewhere", shape, strides, str(dtype), device])
    return torch.empty_strided(shape, strides, dtype=dtype)


def workspace(count, device):
    asked.append(["workspace", device])
    kept.append(torch.empty(count + 256, dtype=torch.uint8))
    return kept[-1][-kept[-1].data_ptr() % 256 :][:count]


kept = []
torch._C._cuda_getDevice = lambda: CURRENT
torch._C._dynamo.guards._empty_strided_cuda = quick
import tesela
from tesela.torch import _dispatch, _launch

_launch._empty_on, _launch.new_workspace = elsewhere, workspace
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
        [sys.executable, "-c", PROGRAM, str(device), str(current)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.parametrize(("device", "current"), [(0, 0), (1, 0)])
def test_what_is_asked(tmp_path: Path, device: int, current: int) -> None:
    """Outputs and workspaces are of the tensors' device, and the stream is that device's."""
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
    assert documents == [whole, stream, ["workspace", device]]
    assert refused == [["error"]]
