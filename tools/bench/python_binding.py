# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What a call from Python costs: `PYTHONPATH=build/release/python python_binding.py`. Launches with
# a batch of 0 read and check everything, and compute nothing. The times are the lowest of several
# rounds. docs/decisions/python-binding.md has the figures.

import ctypes
import timeit

import numpy as np

import tesela
from c_api import Tensor, TensorArguments
from tesela import _contexts, _native

CALLS, ROUNDS = 500, 200


def by_ctypes(kernel, arrays):
    """A launch as a layer on ctypes would do it: it fills five structures and makes one foreign
    call."""
    name = next(line.split()[-1] for line in open("/proc/self/maps") if "libtesela.so" in line)
    launch = ctypes.CDLL(name).tesela_launch_tensors
    launch.argtypes = [ctypes.c_void_p, ctypes.POINTER(TensorArguments), ctypes.c_void_p]
    address = kernel.address(9, 9)

    def refilled():
        views = []
        for address_, shape, strides in arrays:
            view = Tensor(ctypes.sizeof(Tensor), address_, _native.F32, len(shape))
            view.extents[: len(shape)] = shape
            view.strides[: len(shape)] = strides
            views.append(view)
        arguments = TensorArguments(ctypes.sizeof(TensorArguments), *map(ctypes.pointer, views))
        assert launch(address, ctypes.byref(arguments), None) == 0
        return arguments

    made = refilled()

    def ready():
        launch(address, ctypes.byref(made), None)

    return refilled, ready


def report(what, call):
    call()
    best = min(timeit.repeat(call, number=CALLS, repeat=ROUNDS)) / CALLS
    print(f"{what:55} {best * 1e6:6.2f} us")


def main():
    shape = (0, 8, 64, 64)
    q, k, v, o = (np.empty(shape, np.float32) for _ in range(4))
    lse = np.empty(shape[:3], np.float32)
    plain = [(x.ctypes.data, x.shape, tuple(s // 4 for s in x.strides)) for x in (q, k, v, o, lse)]
    full, window = tesela.variant("full"), tesela.variant("sliding_window")
    key = (_native.F32, 64, 64, _contexts.HOST, ())
    kernel = full._kernel(*key)

    refilled, ready = by_ctypes(kernel, plain)
    report("ctypes, addresses, shapes and strides at hand", refilled)
    report("  structures that are filled already", ready)
    flat = [(*each, _native.F32, _native.HOST, 0) for each in plain]
    report("extension, the same", lambda: kernel.launch(*flat, None, (), False, 0, None))
    report(
        "extension, NumPy's arrays",
        lambda: kernel.launch(q, k, v, o, lse, None, (), False, 0, None),
    )
    report("  without lse", lambda: kernel.launch(q, k, v, o, None, None, (), False, 0, None))
    windows = window._kernel(*key)
    report("  a scalar", lambda: windows.launch(q, k, v, o, lse, None, (5,), False, 0, None))
    slope = np.empty(8, np.float32)
    alibi = tesela.variant("alibi")._kernel(*key)
    report(
        "  a captured tensor", lambda: alibi.launch(q, k, v, o, lse, None, (slope,), False, 0, None)
    )
    report("the kernel's look-up", lambda: full._kernel(*key))
    report("tesela.attention with out", lambda: tesela.attention(q, k, v, full, out=o))
    report("tesela.attention", lambda: tesela.attention(q, k, v, full))
    report("  a scalar", lambda: tesela.attention(q, k, v, window, window=5))
    report("  by name", lambda: tesela.attention(q, k, v, "full"))
    try:
        import torch
    except ImportError:
        return
    tensors = [torch.from_numpy(x) for x in (q, k, v, o, lse)]
    report(
        "extension, torch's tensors by DLPack's C interface",
        lambda: kernel.launch(*tensors, None, (), False, 0, None),
    )

    def by_methods():
        views = [(x.data_ptr(), x.shape, x.stride(), _native.F32, _native.HOST, 0) for x in tensors]
        kernel.launch(*views, None, (), False, 0, None)

    report("  by data_ptr(), shape and stride()", by_methods)
    from tesela.torch import scaled_dot_product_attention as sdpa

    q, k, v = (torch.empty(shape) for _ in range(3))
    bound, slopes = tesela.variant("sliding_window", window=5), torch.empty(8)
    with_slopes = tesela.variant("alibi", slope=slopes)
    with torch.no_grad():
        report("tesela.attention of PyTorch's tensors", lambda: tesela.attention(q, k, v, full))
        report("  a scalar", lambda: tesela.attention(q, k, v, bound))
        report("  a scalar of the call", lambda: tesela.attention(q, k, v, bound, window=9))
        report("  a captured tensor", lambda: tesela.attention(q, k, v, with_slopes))
        report("  with lse", lambda: tesela.attention(q, k, v, full, return_lse=True))
        report("  scaled_dot_product_attention", lambda: sdpa(q, k, v))


main()
