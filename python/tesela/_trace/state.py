# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The tracer that is active in this thread."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any, cast

from .error import error

if TYPE_CHECKING:
    from .tracer import Tracer


class _State(threading.local):
    tracer: Tracer | None = None


_state = _State()


def current() -> Tracer:
    """The active tracer."""
    if _state.tracer is None:
        raise error("a traced value was used after its function had returned")
    return _state.tracer


def exchange(tracer: Tracer | None) -> Tracer | None:
    """Makes a tracer active; gives the previous one."""
    before, _state.tracer = _state.tracer, tracer
    return before


def framework(name: str) -> Any:
    """The module of a framework, if the program has loaded it."""
    return cast(Any, sys.modules.get(name))
