# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every session has a cache of its own."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
_cache = tempfile.TemporaryDirectory(prefix="tesela-cache-")
os.environ["TESELA_CACHE_DIR"] = _cache.name
