# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rewrites a variant so that it computes a part of the sequence and of the heads.

A kernel counts queries, keys and heads from 0. The text of a placed variant adds the first position
of the part. So mask, score, sink and reads of captured tensors see the same as in one launch over
everything:

    attention alibi(slope: f32[H]) {
      mask  = q >= k
      score = s + slope[h] * (k - q)
    }

    attention alibi(slope: f32[of_H], first_q: i32, first_k: i32, first_h: i32) {
      mask  = (q + first_q) >= (k + first_k)
      score = s + slope[(h + first_h)] * ((k + first_k) - (q + first_q))
    }

The first positions are arguments of the launch, so a new part needs no compilation. The analysis of
masks understands such sums, and skips the same tiles.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from tesela._errors import InvalidArgumentError
from tesela._variant import Variant, variant

_TOKENS: Final = re.compile(
    r"//[^\n]*|\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|[A-Za-z_]\w*|&&|\|\||[<>=!]=|\s+|."
)
_NAME: Final = re.compile(r"[A-Za-z_]\w*\Z")
_INDICES: Final = ("q", "k", "h", "hkv")
_EXTENTS: Final = ("Sq", "Sk", "H", "Hkv")
_STATEMENTS: Final = ("mask", "score", "sink", "let", "exact")


class Part(NamedTuple):
    """The part that a launch computes.

    Attributes:
        first_q: the position of its first query.
        first_k: the position of its first key.
        first_h: its first query head.
        first_hkv: its first key/value head.
        counts_sink: whether it adds the sink to its rows. Exactly one part of a row's keys does.
    """

    first_q: int
    first_k: int
    first_h: int = 0
    first_hkv: int = 0
    counts_sink: bool = True


class Sizes(NamedTuple):
    """The sizes of the whole call, under the language's names."""

    B: int
    H: int
    Hkv: int
    Sq: int
    Sk: int


class Placed:
    """A variant that computes parts of a launch.

    Attributes:
        variant: the placed variant, bound to the values of the whole one.
        text: its text.
    """

    def __init__(self, whole: Variant) -> None:
        self.whole = whole
        self._names: dict[str, str] = {}
        self._taken = set(_TOKENS.findall(whole.text))
        text = self._text(whole.text)
        self.text = text
        # A text that was placed before still has its kernels.
        self.variant = variant(text, **whole.bound)

    def values(self, part: Part, sizes: Sizes) -> dict[str, int]:
        """The values of the added parameters that the text uses."""
        numbers = {
            "q": part.first_q,
            "k": part.first_k,
            "h": part.first_h,
            "hkv": part.first_hkv,
            "sink": int(part.counts_sink),
            **sizes._asdict(),
        }
        return {name: numbers[word] for word, name in self._names.items()}

    @property
    def has_sink(self) -> bool:
        """Whether rows have a sink."""
        return "sink" in self._names

    def check_captures(self, values: Mapping[str, Any], sizes: Sizes) -> None:
        """Raises if a captured tensor does not have the shape for the whole call.

        A launch cannot check this, because it only knows the part.
        """
        for parameter in self.whole.parameters:
            tensor = values.get(parameter.name)
            if parameter.shape is None or tensor is None:
                continue
            shape = tuple(tensor.shape)
            if len(shape) != len(parameter.shape):
                continue  # the launch reports it
            for axis, text in enumerate(parameter.shape):
                expected = extent_of(text, sizes)
                if expected is not None and shape[axis] != expected:
                    raise InvalidArgumentError(
                        f"the captured tensor '{parameter.name}' has the shape {shape}, and the "
                        f"axis {axis} is declared {text}, which is {expected} of the whole "
                        "sequence and of all heads: every rank passes the whole tensor"
                    )

    def _text(self, text: str) -> str:
        tokens = [each for each in _TOKENS.findall(text) if not each.startswith("//")]
        open_body = tokens.index("{")
        head, body = tokens[:open_body], tokens[open_body:]
        placed_body = self._body(body)
        placed_head = self._head(head)
        return placed_head + placed_body

    def _name(self, word: str, name: str) -> str:
        """The parameter that is added to ``word``, with a name that is not used yet."""
        found = self._names.get(word)
        if found is None:
            while name in self._taken:
                name += "_"
            self._taken.add(name)
            found = self._names[word] = name
        return found

    def _body(self, tokens: list[str]) -> str:
        out: list[str] = []
        in_sink = False
        depth = 0
        for number, token in enumerate(tokens):
            if in_sink and (token == "}" or (token in _STATEMENTS and depth == 0)):
                out.append(") : -inf\n  ")
                in_sink = False
            if token in "([":
                depth += 1
            elif token in ")]":
                depth -= 1
            if token == ";":
                out.append("\n")  # it ends a statement, like a line break
            elif token in _INDICES:
                out.append(f"({token} + {self._name(token, f'first_{token}')})")
            elif token in _EXTENTS:
                out.append(self._name(token, f"all_{token}"))
            elif token == "=" and _before(tokens, number) == "sink":
                out.append(f"= {self._name('sink', 'counts_sink')} != 0 ? (")
                in_sink = True
            else:
                out.append(token)
        return "".join(out)

    def _head(self, tokens: list[str]) -> str:
        out: list[str] = []
        depth = 0
        for token in tokens:
            depth += (token == "[") - (token == "]")
            if depth > 0 and token in _EXTENTS:
                name = f"of_{token}"
                while name in self._taken:
                    name += "_"
                out.append(name)
            else:
                out.append(token)
        text = "".join(out).rstrip()
        added = ", ".join(f"{name}: i32" for name in self._names.values())
        if not added:
            return text + " "
        if not text.endswith(")"):
            return f"{text}({added}) "
        inside = text[:-1].rstrip()
        return f"{inside}{'' if inside.endswith(('(', ',')) else ', '}{added}) "


def _before(tokens: list[str], number: int) -> str:
    """The last token before this one that is not blank."""
    return next((each for each in reversed(tokens[:number]) if not each.isspace()), "")


def extent_of(text: str, sizes: Sizes) -> int | None:
    """The value of [number *] name [(+ | -) number]; None if the tensor's shape binds name."""
    match = re.match(r"(?:(\d+)\s*\*\s*)?([A-Za-z_]\w*)\s*(?:([+-])\s*(\d+))?\Z", text)
    if match is None:
        return int(text) if text.isdigit() else None
    factor, name, sign, offset = match.groups()
    value: int | None = getattr(sizes, name, None) if name in Sizes._fields else None
    if value is None:
        return None
    return int(factor or 1) * value + (-1 if sign == "-" else 1) * int(offset or 0)


_placed: dict[str, Placed] = {}
"""By the text of the whole variant; values do not matter."""


def placed(whole: Variant) -> Placed:
    """The variant for parts. It is made once for each text."""
    found = _placed.get(whole.text)
    if found is None:
        found = _placed.setdefault(whole.text, Placed(variant(whole.text)))
    return found
