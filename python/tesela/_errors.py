# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The exceptions. Each carries the library's sentence."""

from __future__ import annotations

from collections.abc import Sequence

from tesela import _native


class Error(Exception):
    """What the library refuses or fails at.

    ``str(error)`` is the library's sentence, which names the value, the limit and the remedy.

    Attributes:
        chain: the sentence's links: what was tried, the cause, the cause's cause.
    """

    def __init__(self, sentence: str = "", chain: Sequence[str] = ()) -> None:
        super().__init__(sentence)
        self.chain: tuple[str, ...] = tuple(chain) or (sentence,)


class InvalidArgumentError(Error, ValueError):
    """A value, shape, stride, alignment or type is not accepted; nothing was launched."""


class InvalidVariantError(Error, ValueError):
    """A variant's text has errors; the sentence has all of them, with line, column and caret."""


class UnsupportedError(Error, NotImplementedError):
    """The request is valid, but this version or device cannot do it."""


class NotFoundError(Error, LookupError):
    """A file, device or library was not found."""


class InputOutputError(Error, OSError):
    """Reading or writing failed, or what was read is damaged."""


class DriverError(Error, RuntimeError):
    """The GPU's driver reported an error."""


class OutOfMemoryError(Error, MemoryError):
    """The host's or the device's memory does not suffice; the sentence says which."""


class DefectError(Error, RuntimeError):
    """A defect of Tesela: please report the sentence."""


class CancelledError(Error):
    """The caller took the request back."""


class DeadlineExceededError(Error, TimeoutError):
    """The time that the caller gave was over."""


# By the numbers of tesela_code.
_native.set_errors(
    (
        Error,
        InvalidArgumentError,
        InvalidVariantError,
        UnsupportedError,
        NotFoundError,
        InputOutputError,
        DriverError,
        OutOfMemoryError,
        DefectError,
        CancelledError,
        DeadlineExceededError,
    )
)
