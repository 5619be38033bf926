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

A captured tensor of type i32 or bool that is only read at ``q`` or ``k`` itself is passed as a view
of the part's positions. There is one view for each combination of ``q`` and ``k`` in its indices.
So its reads stay as they are in one launch over the whole sequence. This text and its translation
are an example:

    attention documents(id: i32[B, Sk])            { mask = id[b, q] == id[b, k] }

    attention documents(id: i32[B, Sq], id_k: i32[B, Sk]) { mask = id[b, q] == id_k[b, k] }
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from tesela._errors import InvalidArgumentError
from tesela._variant import Parameter, Variant, variant

_TOKENS: Final = re.compile(
    r"//[^\n]*|\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|[A-Za-z_]\w*|&&|\|\||[<>=!]=|\s+|."
)
_NAME: Final = re.compile(r"[A-Za-z_]\w*\Z")
_INDICES: Final = ("q", "k", "h", "hkv")
_EXTENTS: Final = ("Sq", "Sk", "H", "Hkv")
_STATEMENTS: Final = ("mask", "score", "sink", "let", "exact")
_LENGTHS: Final = {"q": "Sq", "k": "Sk"}
TYPES: Final = {
    "f32": (torch.float32,),
    "f16": (torch.float16,),
    "bf16": (torch.bfloat16,),
    "i32": (torch.int32, torch.int64),
    "bool": (torch.bool, torch.uint8),
}
"""The types of tensors that a launch accepts for each type of the language, its own first."""

_VIEWED: Final = ("i32", "bool")
"""Types of captured tensors that may be views: they have no gradient, which would have to be put
together from the views' gradients."""


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


class _View(NamedTuple):
    """A captured tensor that is cut to a part's positions.

    Attributes:
        name: the name of the parameter in the part's variant.
        of: the name of the parameter in the whole variant.
        axes: for each axis: "q" or "k" if it is cut to the part's queries or keys; None: it is not
            cut.
    """

    name: str
    of: str
    axes: tuple[str | None, ...]

    def cut(self, whole: Tensor, starts: Mapping[str, tuple[int, int]]) -> Tensor:
        """The view. ``starts``: the first position and the number of the queries and the keys."""
        for axis, along in enumerate(self.axes):
            if along is not None:
                whole = whole.narrow(axis, *starts[along])
        return whole


class Placed:
    """A variant that computes parts of a launch.

    Attributes:
        variant: the placed variant, bound to the values of the whole one.
        text: its text.
    """

    def __init__(self, whole: Variant) -> None:
        self.whole = whole
        self._names: dict[str, str] = {}
        self._views: dict[tuple[str, tuple[str | None, ...]], _View] = {}
        self._taken = set(_TOKENS.findall(whole.text))
        text = self._text(whole.text)
        self.text = text
        # A text that was placed before still has its kernels.
        self.variant = variant(text, **whole.bound)

    def values(
        self, given: Mapping[str, Any], part: Part, sizes: Sizes, lengths: tuple[int, int]
    ) -> dict[str, Any]:
        """The values of the parameters for a part.

        Args:
            given: the values of the whole variant's parameters.
            part: the first positions of the part.
            sizes: the sizes of the whole call.
            lengths: the number of the part's queries, and of its keys.
        """
        numbers = {
            "q": part.first_q,
            "k": part.first_k,
            "h": part.first_h,
            "hkv": part.first_hkv,
            "sink": int(part.counts_sink),
            **sizes._asdict(),
        }
        starts = {"q": (part.first_q, lengths[0]), "k": (part.first_k, lengths[1])}
        views = {
            view.name: view.cut(given[view.of], starts)
            for view in self._views.values()
            if given.get(view.of) is not None
        }
        return {**given, **views, **{name: numbers[word] for word, name in self._names.items()}}

    @property
    def has_sink(self) -> bool:
        """Whether rows have a sink."""
        return "sink" in self._names

    def check_captures(self, values: Mapping[str, Any], sizes: Sizes) -> None:
        """Raises if a captured tensor does not have the type or the shape for the whole call.

        A launch cannot check the shape, because it only knows the part. It also checks the type,
        but then other ranks are already waiting for messages.
        """
        for parameter in self.whole.parameters:
            tensor = values.get(parameter.name)
            if parameter.shape is None or tensor is None:
                continue
            shape = tuple(tensor.shape)
            if len(shape) != len(parameter.shape):
                raise InvalidArgumentError(
                    f"the captured tensor '{parameter.name}' has the shape {shape}, and it is "
                    f"declared with {len(parameter.shape)} axes: "
                    f"[{', '.join(parameter.shape)}] of the whole sequence"
                )
            if isinstance(tensor, Tensor) and tensor.dtype not in TYPES[parameter.type]:
                raise InvalidArgumentError(
                    f"the captured tensor '{parameter.name}' is {tensor.dtype}, and it is declared "
                    f"{parameter.type}: convert it"
                )
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
        placed_body = self._body(body, self._view_reads(body))
        placed_head = self._head(head)
        return placed_head + placed_body

    def _name(self, word: str, name: str) -> str:
        """The parameter that is added to ``word``, with a name that is not used yet."""
        found = self._names.get(word)
        if found is None:
            found = self._names[word] = self._free(name)
        return found

    def _free(self, name: str) -> str:
        """A name that is not used yet. It is marked as used."""
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name

    def _view_reads(self, tokens: list[str]) -> dict[int, str]:
        """The new texts of tokens in reads that become reads of views, by the tokens' numbers."""
        replaced: dict[int, str] = {}
        for parameter in self.whole.parameters:
            reads = _reads_at_positions(tokens, parameter)
            for place, axes, indices in reads:
                view = self._views.get((parameter.name, axes))
                if view is None:
                    is_first = all(of != parameter.name for of, _ in self._views)
                    name = "_".join((parameter.name, *(each for each in axes if each)))
                    name = parameter.name if is_first else self._free(name)
                    view = self._views[parameter.name, axes] = _View(name, parameter.name, axes)
                replaced[place] = view.name
                replaced.update(indices)
        return replaced

    def _body(self, tokens: list[str], replaced: Mapping[int, str]) -> str:
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
            if number in replaced:
                out.append(replaced[number])
            elif token == ";":
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
        own = {view.of: view for view in self._views.values() if view.name == view.of}
        out: list[str] = []
        depth = axis = 0
        name = ""
        for token in tokens:
            depth += (token == "[") - (token == "]")
            if depth == 0 and _NAME.match(token):
                name, axis = (token, 0) if token in own else (name, axis)
            elif token == "," and depth > 0:
                axis += 1
            elif token == "]":
                name = ""
            if depth > 0 and token in _EXTENTS:
                along = own[name].axes[axis] if name else None
                out.append(_LENGTHS[along] if along else self._extent(token))
            else:
                out.append(token)
        text = "".join(out).rstrip()
        numbers = [f"{name}: i32" for name in self._names.values()]
        views = [self._declared(view) for view in self._views.values() if view.name != view.of]
        added = ", ".join((*numbers, *views))
        if not added:
            return text + " "
        if not text.endswith(")"):
            return f"{text}({added}) "
        inside = text[:-1].rstrip()
        return f"{inside}{'' if inside.endswith(('(', ',')) else ', '}{added}) "

    def _extent(self, of_everything: str) -> str:
        """The name for an extent of the whole call in a part's shapes."""
        name = f"of_{of_everything}"
        while name in self._taken:
            name += "_"
        return name

    def _declared(self, view: _View) -> str:
        """The declaration of the view's parameter."""
        (parameter,) = (each for each in self.whole.parameters if each.name == view.of)
        extents = [
            _LENGTHS[along]
            if along
            else "".join(self._extent(x) if x in _EXTENTS else x for x in _TOKENS.findall(text))
            for text, along in zip(parameter.shape or (), view.axes, strict=True)
        ]
        return f"{view.name}: {parameter.type}[{', '.join(extents)}]"


_Read = tuple[int, tuple[str | None, ...], dict[int, str]]
"""A read: the number of the name's token; "q", "k" or None for each axis; and the tokens of these
indices by their numbers."""


def _reads_at_positions(tokens: list[str], parameter: Parameter) -> list[_Read]:
    """All reads of a captured tensor. The list is empty if the tensor cannot be passed as views."""
    shape = parameter.shape or ()
    along = [text in _LENGTHS.values() for text in shape]
    if parameter.type not in _VIEWED or not any(along):
        return []
    found: list[_Read] = []
    for place, token in enumerate(tokens):
        if token != parameter.name:
            continue
        indices = _indices_behind(tokens, place)
        axes: list[str | None] = []
        kept: dict[int, str] = {}
        for number, is_along in enumerate(along):
            index = indices[number] if number < len(indices) else []
            if is_along:
                if len(index) != 1 or tokens[index[0]] not in _LENGTHS:
                    return []
                kept[index[0]] = tokens[index[0]]
            axes.append(tokens[index[0]] if is_along else None)
        found.append((place, tuple(axes), kept))
    return found


def _indices_behind(tokens: list[str], place: int) -> list[list[int]]:
    """For each index of the read whose name is at ``place``: its tokens' numbers, no spaces."""
    found: list[list[int]] = [[]]
    depth = 0
    for number in range(place + 1, len(tokens)):
        token = tokens[number]
        depth += (token in "([") - (token in ")]")
        if token.isspace() or (token == "[" and depth == 1):
            continue
        if depth == 0:
            break
        if token == "," and depth == 1:
            found.append([])
        else:
            found[-1].append(number)
    return found


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
