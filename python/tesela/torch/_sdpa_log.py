# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Records which kernels calls of scaled_dot_product_attention ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Literal, NamedTuple


class SdpaCall(NamedTuple):
    """What happened in a call.

    Attributes:
        path: "tesela" or "pytorch": whose kernels ran.
        variant: the name of Tesela's variant; None if PyTorch's kernels ran.
        reason: why PyTorch's kernels ran, a sentence; None if Tesela's kernels ran.
    """

    path: Literal["tesela", "pytorch"]
    variant: str | None
    reason: str | None


_logs: list[Counter[SdpaCall]] = []
_lock = Lock()


def record(path: Literal["tesela", "pytorch"], variant: str | None, reason: str | None) -> None:
    """Counts a call in every open log."""
    if _logs:
        with _lock:
            for log in _logs:
                log[SdpaCall(path, variant, reason)] += 1


# torch.compile calls it once, while it traces. Compiled code does not count calls.
record._dynamo_marked_constant = True  # type: ignore[attr-defined]


@contextmanager
def sdpa_log() -> Iterator[Counter[SdpaCall]]:
    """Counts the calls of :func:`scaled_dot_product_attention` by the kernels that they ran.

    It counts calls of all threads, through this module's function, and through PyTorch's function
    if :func:`replace_sdpa` has replaced that. A call in compiled code is counted when it is
    compiled, once or a few times, not when it runs.

        with tesela.torch.sdpa_log() as log:
            model(x)
        print(log)    # Counter({SdpaCall(path='tesela', variant='causal', reason=None): 32})
    """
    log: Counter[SdpaCall] = Counter()
    with _lock:
        _logs.append(log)
    try:
        yield log
    finally:
        with _lock:
            _logs[:] = [each for each in _logs if each is not log]
