# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Tesela's C API by ctypes: runtime/include/tesela/c/kernel.h in Python. It uses neither PyTorch nor
# NumPy: memory is given by its address.

import ctypes
import re
from collections.abc import Callable, Mapping, Sequence
from ctypes import POINTER, byref, c_char_p, c_double, c_int, c_int64, c_size_t, c_void_p
from typing import Any

TYPES = {"f32": 0, "f16": 1, "bf16": 2, "i32": 3, "bool": 4}
INVALID_ARGUMENT, UNSUPPORTED = 1, 3
# The tensors that have members of their own in the launch structure. An algorithm's other tensors
# are given by name.
MEMBERS = ("q", "k", "v", "o", "lse")
ORIGINS = ("compiled", "memory cache", "disk cache")


class Error(RuntimeError):
    """A failure of the library: its message, and its tesela_code as `code`."""

    def __init__(self, code: int, sentence: str):
        super().__init__(sentence)
        self.code = code


class ContextOptions(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("device", c_char_p),
        ("cache_folder", c_char_p),
        ("no_disk_cache", c_int),
        ("threads", c_int),
        ("log", c_void_p),
        ("log_user", c_void_p),
    ]


class KernelOptions(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("variant", c_char_p),
        ("variant_file", c_char_p),
        ("input_type", c_int),
        ("head_dim_qk", c_int),
        ("head_dim_v", c_int),
        ("schedule", c_char_p),
        ("expected_length", c_int64),
        ("expected_queries", c_int64),
        ("constants", c_void_p),
        ("constant_count", c_size_t),
        ("target", c_char_p),
        ("sizes", c_void_p),
        ("algorithm", c_char_p),
        ("bindings", c_void_p),
        ("binding_count", c_size_t),
    ]


class KernelInfo(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("target", c_char_p),
        ("schedule", c_char_p),
        ("assembler", c_char_p),
        ("origin", c_int),
        ("compile_ms", c_double),
        ("registers", c_int),
        ("spill_bytes", c_int),
        ("shared_bytes", c_int64),
        ("threads", c_int),
    ]


class View(ctypes.Structure):
    """A tensor [batch, heads, length, head_dim]. Strides are in elements; the stride of head_dim
    is 1."""

    _fields_ = [
        ("data", c_void_p),
        ("batch_stride", c_int64),
        ("head_stride", c_int64),
        ("length_stride", c_int64),
    ]


class Parameter(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p),
        ("scalar", c_double),
        ("data", c_void_p),
        ("type", c_int),
        ("rank", c_int),
        ("extents", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("tensor", c_void_p),
    ]


class LaunchArguments(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("batch", c_int64),
        ("heads", c_int64),
        ("kv_heads", c_int64),
        ("length", c_int64),
        ("kv_length", c_int64),
        ("q", View),
        ("k", View),
        ("v", View),
        ("o", View),
        ("lse", c_void_p),
        ("scale", c_double),
        ("parameters", POINTER(Parameter)),
        ("parameter_count", c_size_t),
    ]


class Tensor(ctypes.Structure):
    """A tensor with its type, of any rank. Strides are in elements."""

    _fields_ = [
        ("size", c_size_t),
        ("data", c_void_p),
        ("type", c_int),
        ("rank", c_int),
        ("extents", c_int64 * 8),
        ("strides", c_int64 * 8),
        ("memory", c_int),
        ("device_index", c_int),
        ("read_only", c_int),
    ]


class NamedTensor(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("tensor", POINTER(Tensor))]


class TensorArguments(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        *((name, POINTER(Tensor)) for name in MEMBERS),
        ("scale", c_double),
        ("parameters", POINTER(Parameter)),
        ("parameter_count", c_size_t),
        ("captures_unchanged", c_int),
        ("workspace", c_void_p),
        ("workspace_bytes", c_size_t),
        ("tensors", POINTER(NamedTensor)),
        ("tensor_count", c_size_t),
        ("extents", c_void_p),
        ("extent_count", c_size_t),
        ("parameters_in_order", c_int),
    ]


def choice(schedule: str, name: str, default: int | None = None) -> int:
    """The number that a schedule's text gives to a choice, such as `block_m` in "block_m = 128,
    …"."""
    numbers = re.findall(rf"\b{name} = (\d+)", schedule)
    if not numbers and default is not None:
        return default
    if len(numbers) != 1:
        raise ValueError(f"the schedule '{schedule}' does not say once what {name} is")
    return int(numbers[0])


def contiguous(address: int, shape: Sequence[int]) -> View:
    """The view of memory at `address` that holds [batch, heads, length, head_dim] without gaps."""
    _, heads, length, head_dim = shape
    return View(address, heads * length * head_dim, length * head_dim, head_dim)


def tensor(address: int, type_name: str, extents: Sequence[int], strides: Sequence[int]) -> Tensor:
    result = Tensor(
        size=ctypes.sizeof(Tensor), data=address, type=TYPES[type_name], rank=len(extents)
    )
    result.extents[: len(extents)] = extents
    result.strides[: len(strides)] = strides
    return result


def scalar(name: str, value: float) -> Parameter:
    return Parameter(name=name.encode(), scalar=value)


def capture(name: str, address: int, type_name: str, extents: Sequence[int]) -> Parameter:
    """A captured tensor without gaps; `extents` is its shape."""
    values = (c_int64 * len(extents))(*extents)
    # ctypes keeps `values` alive as long as the structure that points to it.
    return Parameter(
        name=name.encode(), data=address, type=TYPES[type_name], rank=len(extents), extents=values
    )


class Library:
    def __init__(self, path: str):
        """Raises OSError if `path` cannot be loaded."""
        self.path = path
        self._library = library = ctypes.CDLL(path)
        for name, result, arguments in (
            ("tesela_version", c_char_p, []),
            ("tesela_last_error", c_char_p, []),
            ("tesela_context_create", c_int, [POINTER(ContextOptions), POINTER(c_void_p)]),
            ("tesela_context_destroy", None, [c_void_p]),
            ("tesela_context_device", c_char_p, [c_void_p]),
            ("tesela_context_target", c_char_p, [c_void_p]),
            ("tesela_compile", c_int, [c_void_p, POINTER(KernelOptions), POINTER(c_void_p)]),
            ("tesela_kernel_destroy", None, [c_void_p]),
            ("tesela_kernel_describe", c_int, [c_void_p, POINTER(KernelInfo)]),
            ("tesela_launch", c_int, [c_void_p, POINTER(LaunchArguments), c_void_p]),
            ("tesela_launch_tensors", c_int, [c_void_p, POINTER(TensorArguments), c_void_p]),
        ):
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments

    @property
    def version(self) -> str:
        return self._library.tesela_version().decode()

    def context(self, device: str = "auto", threads: int = 0) -> "Context":
        """A context that neither reads nor writes the disk cache. `threads`: threads of the
        host; 0 takes as many as the hardware has."""
        return Context(self, device, threads)

    def call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code is not None and code != 0:
            raise Error(code, self._library.tesela_last_error().decode())


class Context:
    def __init__(self, library: Library, device: str, threads: int):
        self._library = library
        self._handle = c_void_p()
        options = ContextOptions(
            size=ctypes.sizeof(ContextOptions),
            device=device.encode(),
            no_disk_cache=1,
            threads=threads,
        )
        library.call("tesela_context_create", byref(options), byref(self._handle))
        self.device = library._library.tesela_context_device(self._handle).decode()
        self.target = library._library.tesela_context_target(self._handle).decode()

    def __del__(self):
        self._library.call("tesela_context_destroy", self._handle)

    def compile(
        self,
        variant: str,
        type_name: str,
        head_dim_qk: int,
        head_dim_v: int,
        schedule: str | None = None,
        expected_length: int = 0,
        expected_queries: int = 0,
        algorithm: str = "forward",
    ) -> "Kernel":
        options = KernelOptions(
            size=ctypes.sizeof(KernelOptions),
            variant=variant.encode(),
            input_type=TYPES[type_name],
            head_dim_qk=head_dim_qk,
            head_dim_v=head_dim_v,
            schedule=schedule.encode() if schedule else None,
            expected_length=expected_length,
            expected_queries=expected_queries,
            algorithm=algorithm.encode(),
        )
        handle = c_void_p()
        self._library.call("tesela_compile", self._handle, byref(options), byref(handle))
        return Kernel(self._library, handle)


class Kernel:
    def __init__(self, library: Library, handle: c_void_p):
        self._library = library
        self._handle = handle

    def __del__(self):
        self._library.call("tesela_kernel_destroy", self._handle)

    def info(self) -> dict[str, str | float | int]:
        """What the library knows about the kernel; what it does not know is left out."""
        info = KernelInfo(size=ctypes.sizeof(KernelInfo))
        self._library.call("tesela_kernel_describe", self._handle, byref(info))
        texts = {name: getattr(info, name).decode() for name in ("target", "schedule", "assembler")}
        numbers = ("registers", "spill_bytes", "shared_bytes", "threads")
        known = {name: value for name in numbers if (value := getattr(info, name)) >= 0}
        return {
            **texts,
            "origin": ORIGINS[info.origin],
            "compile_ms": info.compile_ms,
            **known,
        }

    def launcher(
        self,
        shape: Sequence[int],
        q: View,
        k: View,
        v: View,
        o: View,
        lse: int,
        scale: float = 0.0,
        parameters: Sequence[Parameter] = (),
        stream: int | None = None,
    ) -> Callable[[], None]:
        """A function without arguments that launches. `shape`: (batch, heads, kv_heads, length,
        kv_length); q, k, v, o: View; lse: an address; scale 0 means 1/sqrt(head_dim_qk). The
        memory must stay alive as long as the function may be called."""
        batch, heads, kv_heads, length, kv_length = shape
        values = (Parameter * len(parameters))(*parameters)
        arguments = LaunchArguments(
            ctypes.sizeof(LaunchArguments), batch, heads, kv_heads, length, kv_length,
            q, k, v, o, lse, scale, values, len(parameters),
        )  # fmt: skip
        return self._call("tesela_launch", arguments, stream, (values, parameters))

    def tensor_launcher(
        self,
        tensors: Mapping[str, Tensor],
        scale: float = 0.0,
        parameters: Sequence[Parameter] = (),
        stream: int | None = None,
    ) -> Callable[[], None]:
        """Like `launcher`, for an algorithm with other tensors. `tensors` has all tensors by
        name, including q, k, v, o and lse."""
        pointers = {name: ctypes.pointer(each) for name, each in tensors.items()}
        members = {name: pointers.pop(name) for name in MEMBERS if name in pointers}
        named = (NamedTensor * len(pointers))(
            *(NamedTensor(name.encode(), pointer) for name, pointer in pointers.items())
        )
        values = (Parameter * len(parameters))(*parameters)
        arguments = TensorArguments(
            size=ctypes.sizeof(TensorArguments),
            scale=scale,
            parameters=values,
            parameter_count=len(parameters),
            tensors=named,
            tensor_count=len(named),
            **members,
        )
        return self._call("tesela_launch_tensors", arguments, stream, (values, parameters))

    def _call(
        self, name: str, arguments: ctypes.Structure, stream: int | None, keep: Any
    ) -> Callable[[], None]:
        reference = byref(arguments)
        launch = getattr(self._library._library, name)

        def call():
            # The library is called directly, because this code is timed.
            code = launch(self._handle, reference, stream)
            if code != 0:
                raise Error(code, self._library._library.tesela_last_error().decode())

        call.keep = (self, arguments, keep)
        return call
