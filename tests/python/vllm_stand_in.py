# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A stand-in for vLLM: the names that examples/vllm_backend.py imports, without functions.

It imitates vLLM's classes as a backend sees them in version 0.33, written from its interface. So
the tests show that the example computes what the interface asks for, not that vLLM runs it.
"""

from __future__ import annotations

import enum
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Generic, TypeVar

from torch import Tensor

T = TypeVar("T")


class AttentionType(str, enum.Enum):
    DECODER = "decoder"


class AttentionCGSupport(enum.Enum):
    UNIFORM_BATCH = 2


class KVCacheLayout(enum.Enum):
    LBNHC = (0, 1, 3, 2, 4)


@dataclass(frozen=True)
class MultipleOf:
    base: int


class AttentionBackend:
    pass


class AttentionMetadata:
    pass


class AttentionImpl(Generic[T]):
    pass


class AttentionMetadataBuilder(Generic[T]):
    def __init__(
        self, kv_cache_spec: Any, layer_names: list[str], vllm_config: Any, device: Any
    ) -> None:
        pass


@dataclass
class CommonAttentionMetadata:
    query_start_loc: Tensor
    query_start_loc_cpu: Tensor
    seq_lens: Tensor
    num_reqs: int
    num_actual_tokens: int
    max_query_len: int
    max_seq_len: int
    block_table_tensor: Tensor
    slot_mapping: Tensor
    causal: bool | Tensor = True


def install() -> None:
    """Installs the stand-in. Only called if vLLM is not installed."""
    names = ["vllm", "vllm.v1", "vllm.v1.attention", "vllm.v1.attention.backend"]
    for name in [*names, "vllm.v1.kv_cache_layout"]:
        sys.modules[name] = ModuleType(name, __doc__)
    for each in (
        *(AttentionBackend, AttentionCGSupport, AttentionImpl, AttentionMetadata),
        *(AttentionMetadataBuilder, AttentionType, CommonAttentionMetadata, MultipleOf),
    ):
        setattr(sys.modules["vllm.v1.attention.backend"], each.__name__, each)
    sys.modules["vllm.v1.kv_cache_layout"].KVCacheLayout = KVCacheLayout  # type: ignore[attr-defined]
