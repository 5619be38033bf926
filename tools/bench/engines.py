# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The engines that are timed beside one another. An engine's `prepare(case, data)` returns a
# Prepared or raises Unavailable. Its `applies(case)` says whether the engine is meant for the case.

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import c_api
import fa3
import tiles
from cases import Case, Setting

TORCH_TYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
CAPTURE_TYPES = {
    torch.float32: "f32",
    torch.bfloat16: "bf16",
    torch.int32: "i32",
    torch.bool: "bool",
}


class Unavailable(RuntimeError):
    """Why an engine is left out of a case: the engine or the machine cannot do it."""


@dataclass
class Prepared:
    # (index of a set of inputs) -> o; in the backward pass -> (dq, dk, dv)
    launch: Callable[[int], Any]
    # (index) -> the LSE of the last launch with that set, or None if the engine writes no LSE
    lse: Callable[[int], torch.Tensor | None] = lambda index: None
    notes: dict[str, Any] = field(default_factory=dict)  # for the JSON
    tile: tuple[int, int] | None = None  # how many queries and keys the kernel's tile has
    deterministic: bool = False  # whether the engine promises the same bits in each launch


def synchronize() -> None:
    """Waits for the GPU if there is one. On the CPU a call returns when its work is done."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def stream_of(device: str) -> int | None:
    """PyTorch's current stream, as the C API takes it; None on the CPU."""
    return torch.cuda.current_stream().cuda_stream or None if device == "cuda" else None


def cache_bytes(device: str) -> int:
    """The size of the GPU's L2 cache; 0 for the CPU, whose times are not reported."""
    if device == "cpu":
        return 0
    return getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 50 << 20)


class Data:
    """A case's inputs: normal random numbers, and as many sets as the L2 cache requires
    (Case.copies)."""

    def __init__(self, case: Case, seed: int, device: str = "cuda"):
        """`device`: "cuda", or "cpu" to try the benchmark out without a GPU."""
        generator = torch.Generator(device=device)
        generator.manual_seed(seed)

        def normal(*shape, dtype=TORCH_TYPES[case.type_name]):
            return torch.randn(*shape, device=device, dtype=dtype, generator=generator)

        self.device, self.normal = device, normal
        self.count = case.copies(cache_bytes(device))
        q = (case.batch, case.heads, case.queries, case.head_dim_qk)
        k = (case.batch, case.kv_heads, case.length, case.head_dim_qk)
        v = (case.batch, case.kv_heads, case.length, case.head_dim_v)
        self.q, self.k, self.v = (
            [normal(*shape) for _ in range(self.count)] for shape in (q, k, v)
        )
        self.scale = case.head_dim_qk**-0.5
        self.setting = case.setting(
            device, seed, lambda *extents: normal(*extents, dtype=torch.float32)
        )


def tesela_parameters(setting: Setting) -> list[c_api.Parameter]:
    """The parameters of Tesela's text. The setting keeps the tensors alive."""
    result = []
    for name, value in setting.parameters.items():
        if isinstance(value, torch.Tensor):
            type_name = CAPTURE_TYPES[value.dtype]
            result.append(c_api.capture(name, value.data_ptr(), type_name, value.shape))
        else:
            result.append(c_api.scalar(name, value))
    return result


class Tesela:
    name = "tesela"

    def __init__(self, library: c_api.Library, schedule: str | None, device: str = "cuda"):
        """`schedule`: choices for every kernel; None leaves all choices to Tesela. `device`: the
        library's name of a device."""
        self.context = library.context(device)
        self.schedule = schedule

    def applies(self, case: Case) -> bool:
        return True

    def prepare(self, case: Case, data: Data) -> Prepared:
        return self.prepare_text(case.variant.text, case, data)

    def compile(
        self, text: str, case: Case, schedule: str | None, algorithm: str = "forward"
    ) -> c_api.Kernel:
        try:
            return self.context.compile(
                text,
                case.type_name,
                case.head_dim_qk,
                case.head_dim_v,
                schedule,
                case.length,
                case.queries,
                algorithm,
            )
        except c_api.Error as error:
            # A schedule that does not fit these head dimensions is an invalid argument.
            if error.code in (c_api.UNSUPPORTED, c_api.INVALID_ARGUMENT):
                raise Unavailable(str(error)) from error
            raise

    def prepare_text(self, text: str, case: Case, data: Data) -> Prepared:
        kernel = self.compile(text, case, self.schedule)

        def view(tensor):
            return c_api.View(tensor.data_ptr(), *tensor.stride()[:3])

        parameters = tesela_parameters(data.setting)
        shape = (case.batch, case.heads, case.kv_heads, case.queries, case.length)
        outputs, logarithms, calls = [], [], []
        for q, k, v in zip(data.q, data.k, data.v):
            # NaN shows rows that are not written.
            o = q.new_full((*q.shape[:3], case.head_dim_v), float("nan"))
            lse = q.new_full(q.shape[:3], float("nan"), dtype=torch.float32)
            outputs.append(o)
            logarithms.append(lse)
            calls.append(
                kernel.launcher(
                    shape, view(q), view(k), view(v), view(o), lse.data_ptr(), data.scale,
                    parameters, stream_of(data.device),
                )  # fmt: skip
            )

        def launch(index):
            calls[index]()
            return outputs[index]

        info = kernel.info()
        tile = tiles.extents(info["schedule"])
        return Prepared(launch, lambda index: logarithms[index], info, tile)


class Classified:
    """Tesela with the variant's `classified` text, so that each tile is classified."""

    name = "classified"

    def __init__(self, tesela: Tesela):
        self.tesela = tesela

    def applies(self, case: Case) -> bool:
        return case.variant.classified is not None

    def prepare(self, case: Case, data: Data) -> Prepared:
        return self.tesela.prepare_text(case.variant.classified, case, data)


class Sdpa:
    """One of PyTorch's scaled_dot_product_attention backends: full and causal masks, no scores."""

    def __init__(self, name: str, backend: SDPBackend):
        self.name, self.backend = name, backend

    def applies(self, case: Case) -> bool:
        return case.variant.plain is not None

    def prepare(self, case: Case, data: Data) -> Prepared:
        options = {"is_causal": case.variant.plain == "causal", "scale": data.scale}
        if case.heads != case.kv_heads:
            options["enable_gqa"] = True

        def launch(index):
            with sdpa_kernel(self.backend):
                return scaled_dot_product_attention(
                    data.q[index], data.k[index], data.v[index], **options
                )

        return Prepared(launch)


def expect_sm_90() -> None:
    """Raises Unavailable if FlashAttention-3's kernels cannot run here."""
    if (capability := torch.cuda.get_device_capability()) != fa3.CAPABILITY:
        major, minor = capability
        raise Unavailable(f"its kernels are for sm_90, this device is sm_{major}{minor}")


class FlashAttention3:
    """FlashAttention-3: full, causal and causal windows, on tensors [B, S, H, D]."""

    name = "fa3"

    def __init__(self, operators: Any):
        """`operators`: the result of fa3.load."""
        self.forward = operators.fwd

    def applies(self, case: Case) -> bool:
        return fa3.mask(case) is not None

    def prepare(self, case: Case, data: Data) -> Prepared:
        expect_sm_90()
        options = {"softmax_scale": data.scale, "num_splits": fa3.splits(case)}
        options.update(fa3.mask(case))
        inputs = [
            [tensor.transpose(1, 2).contiguous() for tensor in tensors]
            for tensors in zip(data.q, data.k, data.v)
        ]

        def launch(index):
            return self.forward(*inputs[index], **options)[0].transpose(1, 2)

        return Prepared(launch)


def plain_block_mask(case: Case, setting: Setting, device: torch.device) -> Any:
    """FlexAttention's block mask, not compiled: all pairs are in memory at once."""
    from torch.nn.attention.flex_attention import create_block_mask

    batch = case.batch if setting.per_batch else None
    heads = case.heads if setting.per_head else None
    return create_block_mask(setting.mask, batch, heads, case.queries, case.length, device=device)


def timed_block_mask(mask_mod: Callable, queries: int, length: int) -> tuple[Any, dict[str, Any]]:
    """FlexAttention's block mask for all batches and heads, and the time to make it.
    create_block_mask is compiled, as PyTorch advises; if that fails, it is not compiled."""
    from torch.nn.attention.flex_attention import create_block_mask

    def timed(create: Callable) -> tuple[Any, float]:
        times = []
        for _ in range(6):  # the first call compiles
            torch.cuda.synchronize()
            start = time.perf_counter()
            block_mask = create(mask_mod, None, None, queries, length, device="cuda")
            torch.cuda.synchronize()
            times.append(1e3 * (time.perf_counter() - start))
        return block_mask, statistics.median(times[1:])

    try:
        block_mask, duration = timed(torch.compile(create_block_mask, dynamic=False))
        failure = None
    except Exception as error:  # the compiler may raise anything
        failure = f"{type(error).__name__}: {error}".strip()[:2000]
    if failure:
        block_mask, duration = timed(create_block_mask)
    notes = {"block_mask_ms": duration}
    return block_mask, {**notes, "block_mask_not_compiled": failure} if failure else notes


def flex_with_sink(sink: torch.Tensor) -> Callable:
    """flex_attention with a sink of each head: the rows are scaled afterwards, by their LSE."""
    from torch.nn.attention.flex_attention import AuxRequest, flex_attention

    def attend(q, k, v, **options):
        o, aux = flex_attention(q, k, v, return_aux=AuxRequest(lse=True), **options)
        share = (aux.lse - sink[:, None]).sigmoid()
        return (o * share[..., None]).to(o.dtype)

    return attend


class Flex:
    """FlexAttention, compiled for the case, with a block mask where the variant has a mask."""

    name = "flex"

    def applies(self, case: Case) -> bool:
        return True

    def prepare(self, case: Case, data: Data) -> Prepared:
        attend, options, notes = self.compiled(case, data, case.variant.time_block_mask)

        def launch(index):
            return attend(data.q[index], data.k[index], data.v[index], **options)

        return Prepared(launch, notes=notes)

    def compiled(
        self, case: Case, data: Data, time_block_mask: bool
    ) -> tuple[Callable, dict[str, Any], dict[str, Any]]:
        """(a function of q, k and v, its options, notes for the JSON)"""
        from torch.nn.attention.flex_attention import flex_attention

        setting = data.setting
        options, notes = {"scale": data.scale}, {}
        if setting.score:
            options["score_mod"] = setting.score
        # Every case is compiled for its own extents, as PyTorch advises for speed. The reset keeps
        # the specialisations of one case from counting towards the limit of the next.
        torch._dynamo.reset()
        if setting.mask and time_block_mask:
            options["block_mask"], notes = timed_block_mask(setting.mask, case.queries, case.length)
        elif setting.mask:
            options["block_mask"] = plain_block_mask(case, setting, data.q[0].device)
        if case.heads != case.kv_heads:
            options["enable_gqa"] = True
        attend = flex_attention if setting.sink is None else flex_with_sink(setting.sink)
        return torch.compile(attend, dynamic=False), options, notes


def peers(names: Sequence[str], fa3_folder: str | None) -> list[Sdpa | FlashAttention3 | Flex]:
    """The engines of these names, in this order: cudnn, fa3, fa2, flex. `fa3_folder` has fa3's
    files."""
    known = {
        "cudnn": lambda: Sdpa("cudnn", SDPBackend.CUDNN_ATTENTION),
        "fa3": lambda: FlashAttention3(fa3.load(fa3_folder)),
        "fa2": lambda: Sdpa("fa2", SDPBackend.FLASH_ATTENTION),
        "flex": Flex,
    }
    return [known[name]() for name in names]
