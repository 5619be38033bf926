# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every session has a cache of its own; several processes may share the tests."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
_cache = tempfile.TemporaryDirectory(prefix="tesela-cache-")
os.environ["TESELA_CACHE_DIR"] = _cache.name
# A graph that PyTorch kept of an older build calls operators as these were then.
os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path(_cache.name) / "inductor")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """This process' part, number TESELA_TEST_SHARD of TESELA_TEST_SHARDS; see scripts/gpu."""
    shards = int(os.environ.get("TESELA_TEST_SHARDS", "1"))
    items[:] = items[int(os.environ.get("TESELA_TEST_SHARD", "0")) :: shards]


@pytest.fixture
def same_bits() -> Iterator[None]:
    """PyTorch's switch: a launch of the gradients gives the same bits each time."""
    torch = pytest.importorskip("torch")
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)
