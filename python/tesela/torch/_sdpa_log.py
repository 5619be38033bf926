# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which path calls of scaled_dot_product_attention took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Literal, NamedTuple


class SdpaCall(NamedTuple):
    """What happened to a call.

    Attributes:
        path: "tesela" or "pytorch", whose kernels ran.
        variant: the name of Tesela's variant; None where PyTorch's kernels ran.
        reason: why PyTorch's kernels ran, a sentence; None where Tesela's did.
    """

    path: Literal["tesela", "pytorch"]
    variant: str | None
    reason: str | None


_logs: list[Counter[SdpaCall]] = []
_lock = Lock()


def record(path: Literal["tesela", "pytorch"], variant: str | None, reason: str | None) -> None:
    """Counts a call in every log that is open."""
    if _logs:
        with _lock:
            for log in _logs:
                log[SdpaCall(path, variant, reason)] += 1


# torch.compile calls it once, while it traces; compiled code does not count.
record._dynamo_marked_constant = True  # type: ignore[attr-defined]


@contextmanager
def sdpa_log() -> Iterator[Counter[SdpaCall]]:
    """Counts the calls of :func:`scaled_dot_product_attention` by the path that they took.

    It counts those of all threads, through this module's function and through PyTorch's where
    :func:`replace_sdpa` has replaced it. A call in compiled code counts when it is compiled, once
    or a few times, and not when it runs.

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
