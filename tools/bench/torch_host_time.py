# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The host's time of an eager PyTorch call on CUDA, by its parts, beside PyTorch's functions.

    PYTHONPATH=build/release/python python3 tools/bench/torch_host_time.py

Prints tables in Markdown, in microseconds for each call. The tensors are small, so that the GPU
finishes before the host; the table of the GPU's own time shows whether it does. All rows take turns
in random order, with rests in which the GPU becomes idle, so that other work on the machine affects
all rows alike. The tables have the median and the least of each row's turns.

Options:
        --rounds N  turns of each row (60)
        --calls N   calls in one turn (100): fewer than the launches that a stream queues before it
        blocks
        --flex      also compiled FlexAttention, which takes a minute to compile
        --stub      uses the stub of the driver (LD_LIBRARY_PATH=build/release/tests/cuda-stub),
        whose
                    functions return at once, and so times Tesela's own part. Nothing is computed.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import random
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Any

import torch
from c_api import Parameter, Tensor, TensorArguments, tensor

Function = Callable[[], Any]
Context = Callable[[], AbstractContextManager[Any]]
SHAPE = (1, 4, 16, 64)


class Rows:
    """Functions by name. They are timed in turns."""

    def __init__(self, options: argparse.Namespace):
        self.options = options
        self.functions: dict[str, tuple[Function, Context]] = {}
        self.times: dict[str, list[float]] = {}
        self.failures: dict[str, str] = {}

    def add(self, name: str, function: Function, context: Context = torch.no_grad) -> None:
        """Adds a row. Its calls run inside the context manager ``context``, which is entered
        outside the timing."""
        try:
            with context():
                for _ in range(5):
                    function()
        except Exception as error:  # a peer that is missing gets a row that says so
            self.failures[name] = f"{type(error).__name__}: {str(error)[:80]}"
            return
        self.functions[name] = function, context

    def measure(self) -> None:
        names, order = list(self.functions), random.Random(1)
        gc.disable()
        for turn in range(self.options.rounds + 3):  # the first three turns warm up
            order.shuffle(names)
            for name in names:
                took = self.turn(*self.functions[name])
                if turn >= 3:
                    self.times.setdefault(name, []).append(took)
        gc.enable()

    def turn(self, function: Function, context: Context) -> float:
        calls = range(self.options.calls)
        synchronize()
        with context():
            function()
            begin = time.perf_counter()
            for _ in calls:
                function()
            return (time.perf_counter() - begin) / self.options.calls * 1e6

    def cell(self, name: str) -> str:
        if name in self.failures:
            return self.failures[name]
        times = self.times[name]
        return f"{statistics.median(times):.2f} ({min(times):.2f})"


def synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def gpu_microseconds(function: Function, calls: int = 100) -> str:
    """The GPU's time for a call, if the next call waits for it."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with torch.no_grad():
        torch.cuda._sleep(10_000_000)  # about 5 ms, so that the host runs ahead
        begin.record()
        for _ in range(calls):
            function()
        end.record()
    torch.cuda.synchronize()
    return f"{begin.elapsed_time(end) / calls * 1e3:.2f}"


class Filled:
    """A launch with structures that are filled already: the library's part, and that of ctypes
    (about 0.4 us)."""

    def __init__(self, kernel: Any, tensors: list[torch.Tensor], values: list[Any]):
        memory, index = 2, 0  # TESELA_MEMORY_CUDA
        path = next(line.split()[-1] for line in open("/proc/self/maps") if "libtesela.so" in line)
        self.library = ctypes.CDLL(path)
        self.address = ctypes.c_void_p(kernel.address(SHAPE[2], SHAPE[2]))
        names = {torch.bfloat16: "bf16", torch.float32: "f32", torch.int32: "i32"}

        def view(x: torch.Tensor) -> Tensor:
            made = tensor(x.data_ptr(), names[x.dtype], x.shape, x.stride())
            made.memory, made.device_index = memory, index
            return made

        views = [view(x) for x in tensors]
        parameters = (Parameter * len(values))()
        for parameter, value in zip(parameters, values, strict=True):
            if isinstance(value, torch.Tensor):
                views.append(view(value))
                parameter.tensor = ctypes.addressof(views[-1])
            else:
                parameter.scalar = value
        self.kept = (views, tensors, values)
        self.arguments = TensorArguments(ctypes.sizeof(TensorArguments))
        for name, each in zip(("q", "k", "v", "o", "lse"), views[: len(tensors)], strict=False):
            setattr(self.arguments, name, ctypes.pointer(each))
        self.arguments.parameters = parameters
        self.arguments.parameter_count = len(values)
        self.arguments.parameters_in_order = 1

    def function(self, name: str, *last: Any) -> Function:
        found = getattr(self.library, name)
        given = (self.address, ctypes.byref(self.arguments), *last)

        def call() -> None:
            if found(*given) != 0:
                self.library.tesela_last_error.restype = ctypes.c_char_p
                raise RuntimeError(self.library.tesela_last_error().decode())

        return call


class Case:
    """A call of tesela.attention, and its parts."""

    PARTS = (
        "the library's checks",
        "the library's launch",
        "Kernel.launch: and reading the tensors",
        "Eager.launch: and the outputs, the stream, the kernel's look-up",
        "Eager.attend: and the look whether more is to happen",
        "tesela.torch's function: and the look whether torch.compile traces",
        "tesela.attention",
    )

    def __init__(self, rows: Rows, name: str, variant: Any, q: torch.Tensor, lse: bool):
        import tesela
        from tesela import _native
        from tesela.torch import _dispatch, _launch

        self.name, self.rows = name, rows
        variant = tesela.variant(variant)
        kernel = variant._kernel(_native.BF16, SHAPE[3], SHAPE[3], 0, ())
        _, values, *_ = variant._for_launch
        out = torch.empty_like(q)
        logarithms = torch.empty(SHAPE[:3], device=q.device) if lse else None
        stream = torch.cuda.current_stream().cuda_stream if q.is_cuda else 0
        rest = (variant, None, lse, False, None, {})
        eager = _launch.EAGER

        def workspace(count: int) -> torch.Tensor:
            return _launch.new_workspace(count, 0)

        tensors = [q, q, q, out, *([logarithms] if logarithms is not None else [])]
        filled = Filled(kernel, tensors, list(values))
        self.call = lambda: tesela.attention(q, q, q, variant, return_lse=lse)
        functions = (
            filled.function("tesela_check_tensors"),
            filled.function("tesela_launch_tensors", ctypes.c_void_p(stream)),
            lambda: kernel.launch(q, q, q, out, logarithms, None, values, False, stream, workspace),
            lambda: eager.launch(q, q, q, *rest),
            lambda: eager.attend(q, q, q, *rest),
            lambda: _dispatch.attention(q, q, q, *rest),
            self.call,
        )
        for part, function in zip(self.PARTS, functions, strict=True):
            rows.add(f"{name}: {part}", function)

    def cells(self) -> list[str]:
        return [self.rows.cell(f"{self.name}: {part}") for part in self.PARTS]


def on_stub() -> None:
    sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "cuda-stub"))
    import torch_on_stub

    torch_on_stub.show_as_cuda_quickly()
    torch._C._cuda_getDevice = lambda: 0  # type: ignore[attr-defined]
    guards: Any = torch._C._dynamo.guards
    memory = torch_on_stub.new_workspace(1 << 20)

    def empty(shape: Any, strides: Any, dtype: torch.dtype) -> torch.Tensor:
        if dtype is torch.bool:  # a workspace is allocated as bytes
            return memory[: shape[0]].view(dtype)
        return guards._empty_strided_cpu(shape, strides, dtype)

    guards._empty_strided_cuda = empty
    from tesela.torch import _dispatch, _launch

    _launch.new_workspace = lambda count, device: memory[:count]
    _launch.EAGER = _launch.make_eager(_launch.QUICK)
    _dispatch._attend = _launch.EAGER.attend


def add_single_parts(rows: Rows, q: torch.Tensor) -> tuple[str, ...]:
    from tesela.torch import _launch

    guards: Any = torch._C._dynamo.guards
    empty = guards._empty_strided_cuda if q.is_cuda else guards._empty_strided_cpu
    _, heads, length, dim = SHAPE
    strides = (heads * length * dim, length * dim, dim, 1)
    parts: dict[str, Function] = {
        "an output": lambda: empty(SHAPE, strides, torch.bfloat16),
        "an output of float32 with three axes": lambda: empty(
            SHAPE[:3], (heads * length, length, 1), torch.float32
        ),
        "torch.empty_like": lambda: torch.empty_like(q),
        "the looks of five observers": lambda: _launch.EAGER.needs_dispatcher(q, q, q, None),
        "the current device": torch._C._cuda_getDevice,
        "a function of Python's": lambda: None,
    }
    for name, function in parts.items():
        rows.add(name, function)
    return tuple(parts)


def add_peers(rows: Rows, q: torch.Tensor) -> list[str]:
    """PyTorch's own functions on q, causal."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    sdpa = torch.nn.functional.scaled_dot_product_attention
    names = []
    for name, backend in (
        ("flash", SDPBackend.FLASH_ATTENTION),
        ("cuDNN", SDPBackend.CUDNN_ATTENTION),
        ("efficient", SDPBackend.EFFICIENT_ATTENTION),
    ):

        def context(backend: Any = backend) -> AbstractContextManager[Any]:
            both = ExitStack()
            both.enter_context(torch.no_grad())
            both.enter_context(sdpa_kernel(backend))
            return both

        names.append(f"PyTorch's SDPA, {name}")
        rows.add(names[-1], lambda: sdpa(q, q, q, is_causal=True), context)
    if rows.options.flex:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        length, device = SHAPE[2], str(q.device)
        mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, length, length, device)
        compiled: Any = torch.compile(flex_attention)
        names.append("FlexAttention, compiled")
        rows.add(names[-1], lambda: compiled(q, q, q, block_mask=mask))
    return names


def add_training(rows: Rows, q: torch.Tensor) -> list[str]:
    """Calls in grad mode: on tensors without gradients, and differentiated calls."""
    import tesela
    from torch.nn.attention import SDPBackend, sdpa_kernel

    x, grad = q.clone().requires_grad_(), torch.ones_like(q)
    sdpa = torch.nn.functional.scaled_dot_product_attention
    names = ["tesela.attention, causal, in grad mode"]
    rows.add(names[0], lambda: tesela.attention(q, q, q, "causal"), nullcontext)
    for name, context, attend in (
        ("tesela.attention", nullcontext, lambda: tesela.attention(x, x, x, "causal")),
        (
            "PyTorch's SDPA, flash",
            lambda: sdpa_kernel(SDPBackend.FLASH_ATTENTION),
            lambda: sdpa(x, x, x, is_causal=True),
        ),
    ):
        names += [f"{name}, causal, differentiated", f"{name}, forward and backward pass"]
        rows.add(names[-2], attend, context)
        rows.add(names[-1], lambda attend=attend: torch.autograd.grad(attend(), x, grad), context)
    return names


def table(head: str, cells: dict[str, list[str]]) -> None:
    columns = head.count("|") + 1
    print(f"\n| {head} |\n|{'---|' * columns}")
    for name, row in cells.items():
        print(f"| {name} | {' | '.join(row)} |", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--flex", action="store_true")
    parser.add_argument("--stub", action="store_true")
    options = parser.parse_args()
    if not options.stub and not torch.cuda.is_available():
        print("skipped: torch.cuda.is_available() is false", file=sys.stderr)
        return 77
    if options.stub:
        on_stub()
    import tesela
    import tesela.torch

    device = "cpu" if options.stub else "cuda"
    on = "the driver's stub" if options.stub else torch.cuda.get_device_name()
    print(f"{on}, PyTorch {torch.__version__}, medians (least) of {options.rounds} turns")
    q = torch.randn(SHAPE).to(device, torch.bfloat16)
    slope = torch.rand(SHAPE[1], device=device)
    ids = torch.zeros((SHAPE[0], SHAPE[2]), dtype=torch.int32, device=device)
    rows = Rows(options)
    cases = [
        Case(rows, "causal", "causal", q, lse=False),
        Case(rows, "a scalar", tesela.variant("sliding_window", window=8), q, lse=False),
        Case(rows, "a captured tensor", tesela.variant("alibi", slope=slope), q, lse=False),
        Case(rows, "causal, with lse", "causal", q, lse=True),
        Case(rows, "documents", tesela.variant("documents", id=ids), q, lse=False),
    ]
    ours = "tesela.torch.scaled_dot_product_attention"
    rows.add(ours, lambda: tesela.torch.scaled_dot_product_attention(q, q, q, is_causal=True))
    single = add_single_parts(rows, q)
    peers = [] if options.stub else add_peers(rows, q)
    training = [] if options.stub else add_training(rows, q)
    rows.measure()
    calls = [f"{case.name}: {Case.PARTS[-1]}" for case in cases]
    table("a call | us", {name: [rows.cell(name)] for name in (*calls, ours, *peers, *training)})
    by_case = zip(*(case.cells() for case in cases), strict=True)
    table(
        "what | " + " | ".join(case.name for case in cases),
        {part: list(cells) for part, cells in zip(Case.PARTS, by_case, strict=True)},
    )
    table("alone | us", {name: [rows.cell(name)] for name in single})
    if not options.stub:
        table("the GPU, of a call | us", {c.name: [gpu_microseconds(c.call)] for c in cases})
    return 0


if __name__ == "__main__":
    sys.exit(main())
