# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes PyTorch show tensors in host memory as CUDA tensors, for processes on the driver's stub.

The stub has two GPUs and computes nothing. Call this before ``tesela.torch`` is imported.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Callable
from typing import Any

import torch


class _View(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_index", ctypes.c_int32),
        ("rest", ctypes.c_byte * 40),
    ]


_Exchange = ctypes.c_void_p * 7
_ask_view = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_View))
_ask_stream = ctypes.PYFUNCTYPE(
    ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p)
)
_kept: list[Any] = []
_CUDA = 2  # kDLCUDA


def _replace_exchange(functions: Callable[[int], tuple[Any, Any]]) -> None:
    """``functions`` makes the functions for a view and for the stream from PyTorch's for a view."""
    api, name = ctypes.pythonapi, ctypes.create_string_buffer(b"dlpack_exchange_api")
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_void_p]
    api.PyCapsule_New.restype = ctypes.py_object
    api.PyCapsule_New.argtypes = [ctypes.c_void_p] * 3
    place = ctypes.addressof(name)
    capsule: Any = torch.Tensor.__dlpack_c_exchange_api__
    exchange = _Exchange.from_buffer_copy(
        _Exchange.from_address(api.PyCapsule_GetPointer(capsule, place))
    )
    view, stream = functions(exchange[5])
    exchange[5], exchange[6] = (ctypes.cast(each, ctypes.c_void_p).value for each in (view, stream))
    _kept.extend((name, exchange, view, stream))
    torch.Tensor.__dlpack_c_exchange_api__ = api.PyCapsule_New(  # type: ignore[misc]
        ctypes.addressof(exchange), place, None
    )


def show_as_cuda(device: int, tell_stream: Callable[[int, int], None]) -> None:
    """From now on PyTorch's DLPack exchange interface says that all tensors are on a GPU.

    ``tell_stream`` is called with the kind and number of each device whose stream is requested.
    """

    def functions(own: int) -> tuple[Any, Any]:
        pytorchs = _ask_view(own)

        @_ask_view
        def view(tensor: Any, result: Any) -> int:
            code = pytorchs(tensor, result)
            result.contents.device_type, result.contents.device_index = _CUDA, device
            return code

        @_ask_stream
        def stream(kind: int, number: int, result: Any) -> int:
            tell_stream(kind, number)
            result[0] = None
            return 0

        return view, stream

    _replace_exchange(functions)


_IN_C = """
struct view { void *data; int type, index; };
int (*pytorchs)(void *, struct view *);
int view(void *tensor, struct view *result) {
  int code = pytorchs(tensor, result);
  result->type = 2;
  result->index = 0;
  return code;
}
int stream(int kind, int device, void **result) {
  *result = 0;
  return 0;
}
"""


def show_as_cuda_quickly() -> None:
    """The same for the first GPU, in C: for measurements, because Python functions are slower."""
    with tempfile.TemporaryDirectory() as folder:
        library = f"{folder}/exchange.so"
        subprocess.run(
            ["cc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", library],
            input=_IN_C,
            text=True,
            check=True,
        )
        loaded = ctypes.PyDLL(library)

    def functions(own: int) -> tuple[Any, Any]:
        ctypes.c_void_p.in_dll(loaded, "pytorchs").value = own
        return loaded.view, loaded.stream

    _replace_exchange(functions)


def new_workspace(count: int) -> torch.Tensor:
    """Memory at a multiple of 256, as PyTorch's allocator gives it on a GPU."""
    memory = torch.empty(count + 256, dtype=torch.uint8)
    _kept.append(memory)
    return memory[-memory.data_ptr() % 256 :][:count]
