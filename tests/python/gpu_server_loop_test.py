# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The loop of a server on a GPU, with one CUDA graph for each batch bucket (see server.py)."""

from __future__ import annotations

import pytest
import torch
from server import BUCKETS, Sizes, Way, serve

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

SIZES = Sizes(heads=8, kv_heads=2, head_dim=64, page=16, pages=64, prefix=21)


@pytest.mark.parametrize("cascade", [False, True])
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("name", ["causal", "sliding_window"])
def test_one_graph_serves_all_steps_of_a_bucket(name: str, split: bool, cascade: bool) -> None:
    way = Way("cuda", torch.bfloat16, split, cascade, limit=3e-2)
    server = serve(SIZES, way, name, steps=300)
    assert all(server.buckets[n].graph is not None for n in BUCKETS)
