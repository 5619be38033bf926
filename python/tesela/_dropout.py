# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The values of dropout's parameters, for every framework."""

from __future__ import annotations

import operator
import secrets
from collections.abc import Callable
from typing import Any

from tesela._errors import InvalidArgumentError

_WORD = 0xFFFFFFFF


def _converted(kind: Callable[[Any], Any], name: str, value: Any) -> Any:
    """``kind(value)``, for a value that may have several elements."""
    try:
        return kind(value)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"{name} is {value!r}, it must be one number") from error


def probability_of(value: Any) -> float:
    """A call's ``dropout_p`` as a number.

    Raises:
        InvalidArgumentError: it is not a number in [0, 1].
    """
    if not hasattr(value, "__float__"):
        raise InvalidArgumentError(
            f"dropout_p is of the type {type(value)}, it must be a number in [0, 1]: pass 0 for no "
            "dropout"
        )
    # torch.compile would make a constant of float(value).
    number: float = value if isinstance(value, float) else _converted(float, "dropout_p", value)
    if not 0 <= number <= 1:
        raise InvalidArgumentError(
            f"dropout_p is {number}, it must lie in [0, 1]: pass 0 for no dropout"
        )
    return number


def of_seed(seed: Any, others: str = "") -> dict[str, Any]:
    """The parameters for a seed; None draws a new seed.

    Args:
        seed: the seed.
        others: what else the caller accepts, for the message.

    Raises:
        InvalidArgumentError: the seed is not a 64-bit integer.
    """
    if seed is None:
        seed = secrets.randbits(64)
    if not hasattr(seed, "__index__"):
        raise InvalidArgumentError(
            f"the seed is a {type(seed)}, it must be a whole number{others}, or None for a new one"
        )
    number = seed if isinstance(seed, int) else _converted(operator.index, "seed", seed)
    if not 0 <= number < 2**64:
        raise InvalidArgumentError(
            f"the seed is {number}, it must lie in [0, 2**64): take seed % 2**64"
        )
    return {"dropout.seed": number & _WORD, "dropout.seed_high": number >> 32}
