# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The values of dropout's parameters, for every framework."""

from __future__ import annotations

import operator
import secrets
from typing import Any

from tesela._errors import InvalidArgumentError

_WORD = 0xFFFFFFFF


def of_seed(seed: Any) -> dict[str, Any]:
    """The parameters for a seed; None draws a new seed.

    Raises:
        InvalidArgumentError: the seed is not a 64-bit integer.
    """
    if seed is None:
        seed = secrets.randbits(64)
    try:
        number = operator.index(seed)
    except TypeError as error:
        raise InvalidArgumentError(
            f"the seed is a {type(seed)}, it must be a whole number, or None for a new one"
        ) from error
    if not 0 <= number < 2**64:
        raise InvalidArgumentError(
            f"the seed is {number}, it must lie in [0, 2**64): take seed % 2**64"
        )
    return {"dropout.seed": number & _WORD, "dropout.seed_high": number >> 32}
