# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The loop of a server on the host (see server.py)."""

from __future__ import annotations

import pytest
import torch
from server import Sizes, Way, serve

SIZES = Sizes(heads=4, kv_heads=2, head_dim=16, page=8, pages=96, prefix=21)


@pytest.mark.parametrize("cascade", [False, True])
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("name", ["causal", "sliding_window"])
def test_sequences_join_grow_and_leave(name: str, split: bool, cascade: bool) -> None:
    serve(SIZES, Way("cpu", torch.float32, split, cascade, limit=1e-4), name, steps=300)
