# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The exceptions. The text of each is a message of the library."""

from __future__ import annotations

from collections.abc import Sequence

from tesela import _native


class Error(Exception):
    """The base class: the library refuses a request, or fails.

    ``str(error)`` is the library's message. It names the value, the limit and the remedy.

    Attributes:
        chain: the parts of the message: what was tried, the cause, the cause of the cause, and so
            on.
    """

    def __init__(self, sentence: str = "", chain: Sequence[str] = ()) -> None:
        super().__init__(sentence)
        self.chain: tuple[str, ...] = tuple(chain) or (sentence,)


class InvalidArgumentError(Error, ValueError):
    """A value, shape, stride, alignment or type is not accepted. Nothing was launched."""


class InvalidVariantError(Error, ValueError):
    """A variant's text has errors. The message has all of them, with line, column and caret."""


class UnsupportedError(Error, NotImplementedError):
    """The request is valid, but this version or this device cannot do it."""


class NotFoundError(Error, LookupError):
    """A file, device or library was not found."""


class InputOutputError(Error, OSError):
    """Reading or writing failed, or a file is damaged."""


class DriverError(Error, RuntimeError):
    """The GPU's driver reported an error."""


class OutOfMemoryError(Error, MemoryError):
    """The host or the device has too little memory. The message says which."""


class DefectError(Error, RuntimeError):
    """A defect of Tesela: please report the message."""


class CancelledError(Error):
    """The caller cancelled the request."""


class DeadlineExceededError(Error, TimeoutError):
    """The time limit of the caller was exceeded."""


# In the order of the tesela_code numbers.
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
