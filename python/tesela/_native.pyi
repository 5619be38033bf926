# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from collections.abc import Callable, Mapping
from typing import Any

version: str

# Numbers of element types and of kinds of memory, as in tesela/c/base.h and tesela/c/tensor.h.
F32: int
F16: int
BF16: int
I32: int
BOOL: int
I64: int
UNKNOWN: int
HOST: int
CUDA: int
PINNED: int
MANAGED: int

# A tensor is (address, shape, strides or None, type, memory, device index), or an object with
# DLPack's C exchange interface (torch.Tensor), or one with __array_struct__ (numpy.ndarray).
Tensor = Any

def deal_cells(
    sums: list[int], needs: bytes, ranks: int, ranks_of_node: int, slack: float, /
) -> tuple[int, ...]: ...
def split_cells(
    sums: list[int], needs: bytes, owners: tuple[int, ...], ranks: int, /
) -> list[tuple[int, int, int]]: ...
def set_errors(classes: tuple[type[Exception], ...], /) -> None: ...
def xla_handlers(find: Callable[..., int], /) -> tuple[Any, Any]: ...
def xla_calls() -> int: ...
def devices(kind: str, /) -> list[dict[str, Any]]: ...
def use_ptxas(path: str, /) -> None: ...
def cache_folder(folder: str | None, /) -> str: ...
def cache_list(folder: str | None, verify: bool, /) -> list[dict[str, Any]]: ...
def cache_prune(
    folder: str | None, most_bytes: int, most_seconds_old: int, /
) -> tuple[int, int, int]: ...

class Variant:
    def __new__(cls, text: str, file: str, /) -> Variant: ...
    @property
    def name(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def warnings(self) -> str: ...
    @property
    def parameters(
        self,
    ) -> tuple[
        tuple[str, int, bool, bool, float | None, tuple[tuple[str, int, int], ...]], ...
    ]: ...

class Context:
    def __new__(
        cls,
        device: str,
        cache_folder: str | None,
        no_disk_cache: bool,
        cache_bytes: int,
        most_kernels: int,
        threads: int,
        /,
    ) -> Context: ...
    @property
    def device(self) -> dict[str, Any]: ...
    @property
    def compile_count(self) -> int: ...
    @property
    def address(self) -> int: ...
    def workers(
        self,
        input_type: int,
        head_dim_qk: int,
        head_dim_v: int,
        is_narrow: bool,
        sizes: tuple[int, int, int, int, int],
        /,
    ) -> int: ...

class Kernel:
    def __new__(
        cls,
        context: Context,
        variant: Variant,
        input_type: int,
        head_dim_qk: int,
        head_dim_v: int,
        constants: tuple[tuple[str, float], ...],
        schedule: str,
        algorithm: str,
        bindings: tuple[str, ...],
        dropout: bool,
        /,
    ) -> Kernel: ...
    def launch(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        o: Tensor,
        lse: Tensor | None,
        scale: float | None,
        values: tuple[Any, ...],
        is_bshd: bool,
        stream: int,
        allocate: Callable[[int], Tensor] | None,
        /,
    ) -> None: ...
    def launch_backward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        o: Tensor,
        lse: Tensor,
        do: Tensor,
        dlse: Tensor | None,
        dq: Tensor,
        dk: Tensor,
        dv: Tensor,
        scale: float | None,
        values: tuple[Any, ...],
        is_bshd: bool,
        stream: int,
        allocate: Callable[[int], Tensor] | None,
        /,
    ) -> None: ...
    def launch_parameters(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        o: Tensor,
        lse: Tensor,
        do: Tensor,
        dlse: Tensor | None,
        scale: float | None,
        values: tuple[Any, ...],
        is_bshd: bool,
        stream: int,
        allocate: Callable[[int], Tensor] | None,
        names: tuple[str, ...],
        gradients: tuple[Tensor, ...],
        /,
    ) -> None: ...
    def launch_named(
        self,
        names: tuple[str, ...],
        tensors: tuple[Tensor | None, ...],
        scale: float | None,
        values: tuple[Any, ...],
        others: tuple[tuple[str, Any], ...],
        extents: tuple[tuple[str, int], ...],
        is_bshd: bool,
        stream: int,
        allocate: Callable[[int], Tensor] | None,
        /,
    ) -> None: ...
    def address(self, queries: int, keys: int, /) -> int: ...
    def describe(self, queries: int, keys: int, /) -> dict[str, Any]: ...
    def tensor_type(self, queries: int, keys: int, name: str, /) -> int: ...
    def prepare(
        self, queries: int, keys: int, milliseconds: int, has_tiers: bool, /
    ) -> Preparation: ...
    def explain(
        self, sizes: tuple[int, int, int, int, int], target: str, values: tuple[Any, ...], /
    ) -> Explanation: ...
    def tune(
        self,
        sizes: tuple[int, int, int, int, int],
        values: tuple[Any, ...],
        seconds: float,
        exhaustive: bool,
        keep_nothing: bool,
        progress: Callable[[int, int, float, float], object] | None,
        /,
    ) -> dict[str, Any]: ...

class Eager:
    def __new__(
        cls,
        *,
        element_types: tuple[Any, ...],
        empty_host: Callable[..., Tensor],
        empty_cuda: Callable[..., Tensor],
        current_device: Callable[[], int] | None,
        empty_on: Callable[..., Tensor],
        written: Callable[[Tensor], object],
        tensor_types: tuple[type, ...],
        is_pending: Callable[[Tensor], bool],
        observers: tuple[Callable[[], object], ...],
        forward_mode: Any,
        is_grad_enabled: Callable[[], bool],
        is_autocasting: Callable[[], bool],
        variant_type: type,
        variants: dict[str, Any],
        as_variant: Callable[[Any], Any],
    ) -> Eager: ...
    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        variant: Any,
        scale: float | None,
        return_lse: bool,
        is_bshd: bool,
        out: Tensor | None,
        parameters: Mapping[str, Any],
        /,
    ) -> Any: ...
    def launch(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        variant: Any,
        scale: float | None,
        return_lse: bool,
        is_bshd: bool,
        out: Tensor | None,
        parameters: Mapping[str, Any],
        /,
    ) -> tuple[Tensor, Tensor | None] | None: ...
    def needs_dispatcher(self, *tensors: Tensor) -> bool: ...

class Preparation:
    def wait(self, milliseconds: int, /) -> bool: ...
    def cancel(self) -> None: ...
    def check(self) -> None: ...
    def best(self, milliseconds: int, /) -> bool: ...

class Explanation:
    def describe(self) -> dict[str, Any]: ...
    def text(self) -> str: ...
    def svg(self) -> str: ...

class KeptCells:
    def __new__(
        cls,
        variant: Variant,
        constants: tuple[tuple[str, float], ...],
        cell: int,
        tile: int,
        threads: int,
        /,
    ) -> KeptCells: ...
    @property
    def deciding(self) -> tuple[str, ...]: ...
    @property
    def tells_apart(self) -> tuple[bool, bool]: ...
    def count(
        self, sizes: tuple[int, int, int, int, int], values: tuple[Any, ...], /
    ) -> tuple[int, int, bytearray, list[int], bytes]: ...
