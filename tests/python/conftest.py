# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Each session has a cache of its own. Several processes may share the tests."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from distributed_ranks import Ranks

sys.path.insert(0, str(Path(__file__).parent))
_cache = tempfile.TemporaryDirectory(prefix="tesela-cache-")
os.environ["TESELA_CACHE_DIR"] = _cache.name
# A graph that PyTorch cached with an older build would call operators of that build.
os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path(_cache.name) / "inductor")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keeps only the tests of part TESELA_TEST_SHARD of TESELA_TEST_SHARDS; see scripts/gpu."""
    shards = int(os.environ.get("TESELA_TEST_SHARDS", "1"))
    items[:] = items[int(os.environ.get("TESELA_TEST_SHARD", "0")) :: shards]


@pytest.fixture
def same_bits() -> Iterator[None]:
    """PyTorch's switch for deterministic algorithms: gradients have the same bits in each
    launch."""
    torch = pytest.importorskip("torch")
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    """Processes that are the ranks of a group, started once for each file of tests."""
    from distributed_ranks import started  # needs PyTorch, which other tests do without

    with started(tmp_path_factory.mktemp("ranks")) as made:
        yield made
