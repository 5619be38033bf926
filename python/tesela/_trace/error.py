# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The error for a function that cannot be traced. It names the user's line."""

from __future__ import annotations

import linecache
import sys
from types import FrameType, TracebackType

from tesela._errors import InvalidVariantError

#: Packages whose frames do not belong to the user.
LIBRARIES = frozenset(sys.stdlib_module_names | {"jax", "jaxlib", "numpy", "torch"}) - {"__main__"}


class TraceError(InvalidVariantError):
    """A Python function cannot become a variant.

    The message names the user's file and line, and says what is wrong there and what to write
    instead.
    """


class TraceAttributeError(TraceError, AttributeError):
    """The same for a missing attribute of a traced value, so that `hasattr` works."""


def is_library(module: str) -> bool:
    """Whether a module is not the user's: it belongs to Python, PyTorch, NumPy or JAX."""
    return module.partition(".")[0] in LIBRARIES


def _is_users(frame: FrameType) -> bool:
    module = str(frame.f_globals.get("__name__", ""))
    return not is_library(module) and not module.startswith("tesela.")


def _at(frame: FrameType, line: int) -> tuple[str, str]:
    path = frame.f_code.co_filename
    return f"{path}:{line}", linecache.getline(path, line, frame.f_globals).strip()


def _place() -> tuple[str, str] | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if _is_users(frame):
            return _at(frame, frame.f_lineno)
        frame = frame.f_back
    return None


def _message(sentence: str, place: tuple[str, str] | None) -> str:
    if place is None:
        return sentence
    where, source = place
    return f"{where}: {sentence}" + (f"\n    {source}" if source else "")


def error(sentence: str, kind: type[TraceError] = TraceError) -> TraceError:
    """An error at the user's line that is executed at the moment."""
    return kind(_message(sentence, _place()))


def error_of_definition(sentence: str, function: object) -> TraceError:
    """An error at the line where `function` is defined."""
    code = getattr(function, "__code__", None)
    if code is None:
        return TraceError(sentence)
    source = linecache.getline(code.co_filename, code.co_firstlineno).strip()
    return TraceError(_message(sentence, (f"{code.co_filename}:{code.co_firstlineno}", source)))


def error_of_exception(exception: Exception, trace: TracebackType | None) -> TraceError:
    """An exception of the user's own function, as an error at the line that raised it."""
    place: tuple[str, str] | None = None
    while trace is not None:
        if _is_users(trace.tb_frame):
            place = _at(trace.tb_frame, trace.tb_lineno)
        trace = trace.tb_next
    sentence = f"{type(exception).__name__}: {exception}"
    if isinstance(exception, IndexError) and str(exception).startswith(("tuple", "list")):
        sentence += (
            "; if it belongs to '*args', name the function's arguments, as in def mask(q, k)"
        )
    elif isinstance(exception, IndexError):
        sentence += (
            "; a NumPy array that the function makes itself cannot be indexed with a traced value: "
            "make it outside of the function"
        )
    elif isinstance(exception, (TypeError, ValueError)):
        sentence += (
            "; the function was called with traced values, which know the operators, indexing, and "
            "the elementwise functions of torch, NumPy and jax.numpy"
        )
    return TraceError(_message(sentence, place))
