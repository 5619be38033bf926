# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tesela as an attention backend of vLLM, by the interface of its version 0.33 (V1).

A plugin of vLLM (an entry point in the group ``vllm.general_plugins``) calls :func:`register`.
Start vLLM with ``--attention-backend CUSTOM``. A layer's window, ALiBi slopes, softcap and sinks
become a variant's text. To use a mask of your own, change that text in :func:`text_of`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import tesela
import torch
from torch import Tensor
from vllm.v1.attention.backend import (
    AttentionBackend,
    AttentionCGSupport,
    AttentionImpl,
    AttentionMetadata,
    AttentionMetadataBuilder,
    AttentionType,
    CommonAttentionMetadata,
    MultipleOf,
)
from vllm.v1.kv_cache_layout import KVCacheLayout


def register() -> None:
    """Registers this backend as vLLM's backend ``CUSTOM``."""
    from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

    path = f"{TeselaBackend.__module__}.{TeselaBackend.__qualname__}"
    register_backend(AttentionBackendEnum.CUSTOM, path)


def text_of(window: int | None, has_slopes: bool, softcap: float | None, has_sinks: bool) -> str:
    """The text of a variant with the options of a layer."""
    captures = ["slope: f32[H]"] * has_slopes + ["sinks: f32[H]"] * has_sinks
    mask = "q >= k" + (f" && q - k < {window}" if window else "")
    score = f"{softcap} * tanh(s / {softcap})" if softcap else "s"
    score += " + slope[h] * (k - q)" if has_slopes else ""
    sink = "  sink = sinks[h]\n" if has_sinks else ""
    return f"attention vllm({', '.join(captures)}) {{\n  mask = {mask}\n  score = {score}\n{sink}}}"


class TeselaBackend(AttentionBackend):
    """The properties that vLLM checks before it uses a backend."""

    supported_dtypes: ClassVar[list[torch.dtype]] = [torch.float16, torch.bfloat16]
    supported_kv_cache_dtypes: ClassVar[list[Any]] = [
        *("auto", "float16", "bfloat16", "fp8", "fp8_e4m3")
    ]

    @staticmethod
    def get_name() -> str:
        return "CUSTOM"

    @staticmethod
    def get_impl_cls() -> type[TeselaImpl]:
        return TeselaImpl

    @staticmethod
    def get_builder_cls() -> type[TeselaMetadataBuilder]:
        return TeselaMetadataBuilder

    @staticmethod
    def get_supported_kernel_block_sizes(kv_cache_spec: Any = None) -> list[int | MultipleOf]:
        return [MultipleOf(16)]

    @classmethod
    def supported_kv_cache_layouts(cls) -> tuple[KVCacheLayout, ...]:
        return (KVCacheLayout.LBNHC,)  # rows of pages follow one another, as write_pages requires

    @classmethod
    def supports_head_size(cls, head_size: int) -> bool:
        return head_size % 8 == 0 and head_size <= 256

    @classmethod
    def supports_sliding_window(cls) -> bool:
        return True

    @classmethod
    def supports_sink(cls) -> bool:
        return True


@dataclass
class TeselaMetadata(AttentionMetadata):
    """A step's data for all layers. Only the bounds and the number of tokens are on the host."""

    tokens: int
    most_queries: int
    most_keys: int
    starts: Tensor
    """int32 [B + 1]"""
    lengths: Tensor
    """int32 [B], including the keys of this step"""
    table: Tensor
    """int32 [B, most pages of a sequence]"""
    slots: Tensor
    """int32 [tokens], -1 for padding"""


class TeselaMetadataBuilder(AttentionMetadataBuilder[TeselaMetadata]):
    """Passes on the tensors that vLLM has on the device. Nothing is copied to the host."""

    # A graph is valid for all batches within the bounds with which it was captured.
    _cudagraph_support: ClassVar[AttentionCGSupport] = AttentionCGSupport.UNIFORM_BATCH

    def __init__(
        self, kv_cache_spec: Any, layer_names: list[str], vllm_config: Any, device: torch.device
    ) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)
        most = vllm_config.scheduler_config.max_num_batched_tokens
        # vLLM's slots are int64. A graph reads this int32 copy, whose address does not change.
        self.slots = torch.full((most,), -1, dtype=torch.int32, device=device)

    def build(
        self,
        common_prefix_len: int,
        common_attn_metadata: CommonAttentionMetadata,
        fast_build: bool = False,
    ) -> TeselaMetadata:
        """Makes the metadata of a step.

        ``common_prefix_len`` is 0 in this version of vLLM. If sequences share a prefix, a server of
        your own can call :func:`tesela.attention_cascade`.
        """
        common = common_attn_metadata
        if common.causal is not True:
            raise NotImplementedError("attention that is not causal: write its mask in text_of")
        tokens = common.num_actual_tokens
        slots = self.slots[:tokens]
        slots.copy_(common.slot_mapping[:tokens])
        return TeselaMetadata(
            tokens,
            common.max_query_len,
            common.max_seq_len,
            common.query_start_loc,
            common.seq_lens,
            common.block_table_tensor,
            slots,
        )


class TeselaImpl(AttentionImpl[TeselaMetadata]):
    """The attention of one layer."""

    def __init__(
        self,
        num_heads: int,
        head_size: int,
        scale: float,
        num_kv_heads: int | None = None,
        alibi_slopes: list[float] | None = None,
        sliding_window: int | None = None,
        kv_cache_dtype: str = "auto",
        logits_soft_cap: float | None = None,
        attn_type: str = AttentionType.DECODER,
        kv_sharing_target_layer_name: str | None = None,
        sinks: Tensor | None = None,
    ) -> None:
        if attn_type != AttentionType.DECODER:
            raise NotImplementedError(
                f"attention of the type {attn_type}: a decoder's alone is here"
            )
        self.num_heads, self.head_size, self.scale = num_heads, head_size, float(scale)
        self.num_kv_heads = num_kv_heads or num_heads
        self.kv_cache_dtype = kv_cache_dtype
        self.writes = kv_sharing_target_layer_name is None  # otherwise another layer writes
        self.values: dict[str, Any] = {}
        if alibi_slopes is not None:
            self.values["slope"] = torch.tensor(alibi_slopes, dtype=torch.float32)
        if sinks is not None:
            self.values["sinks"] = sinks
        cap = logits_soft_cap or None  # 0 means no softcap
        self.variant = tesela.variant(
            text_of(sliding_window, alibi_slopes is not None, cap, sinks is not None)
        )

    def forward(
        self,
        layer: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        kv_cache: Tensor,
        attn_metadata: TeselaMetadata | None,
        output: Tensor,
        output_scale: Tensor | None = None,
        output_block_scale: Tensor | None = None,
    ) -> Tensor:
        """Writes the step's keys and values into pages, and computes attention over the pages.

        Args:
            layer: the layer, with the scales of an 8-bit cache.
            query: ``[padded tokens, heads, D]``.
            key: ``[padded tokens, kv heads, D]``.
            value: ``[padded tokens, kv heads, D]``.
            kv_cache: ``[pages, kv heads, page, 2 D]``.
            attn_metadata: the metadata of the step; None in a run that only measures memory.
            output: the tensor that receives the result, with the shape of ``query``.
            output_scale: not supported.
            output_block_scale: not supported.
        """
        if output_scale is not None or output_block_scale is not None:
            raise NotImplementedError("results of 8 bits")
        if attn_metadata is None:
            return output.fill_(0)
        step, scales = attn_metadata, {}
        if self.kv_cache_dtype.startswith("fp8"):
            kv_cache = kv_cache.view(torch.float8_e4m3fn)
            scales = {"k_scale": layer._k_scale.reshape(1), "v_scale": layer._v_scale.reshape(1)}
        k_pages, v_pages = kv_cache.transpose(1, 2).split(self.head_size, -1)
        q = query[: step.tokens]
        if self.writes:
            k, v = key[: step.tokens], value[: step.tokens]
            q = tesela.write_pages(q, k, v, k_pages, v_pages, slots=step.slots, **scales)
        for name, tensor in self.values.items():  # once, to the model's device
            self.values[name] = tensor.to(query.device, torch.float32)
        tesela.attention_paged(
            *(q, k_pages, v_pages, self.variant),
            table=step.table,
            lengths=step.lengths,
            starts_q=step.starts,
            max_queries=step.most_queries,
            max_keys=step.most_keys,
            scale=self.scale,
            out=output[: step.tokens],
            **scales,
            **self.values,
        )
        return output
