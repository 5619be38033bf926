# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rewrites variants: scalars become captured tensors, and captured tensors get a batch axis.

A text declares each name once and never shadows it, so looking at tokens is enough. The library
checks every text, so a wrong rewrite would be refused.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import NamedTuple, NoReturn

from tesela._errors import UnsupportedError
from tesela._variant import Parameter, _Program, _program_of


def program_of(text: str) -> _Program:
    """The program of a text, from memory or checked now."""
    return _program_of(text, "variant")


_TOKEN = re.compile(r"//[^\n]*|\s+|[A-Za-z_]\w*|.", re.DOTALL)


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(text)


def _words(tokens: list[str]) -> Iterator[int]:
    """The indices of tokens that are neither blanks nor comments."""
    return (
        place
        for place, token in enumerate(tokens)
        if not token.isspace() and not token.startswith("//")
    )


def _has_batch_axis(parameter: Parameter) -> bool:
    return parameter.shape is not None and parameter.shape[:1] == ("B",)


@functools.lru_cache(maxsize=1024)
def with_batch_axis(text: str, names: tuple[str, ...]) -> str:
    """The variant for several batches joined into one, each with parameter values of its own.

    ``b`` then counts through all of them. So it may only be the first index of captured tensors
    whose first extent is ``B``. Each of ``names`` becomes such a tensor: a scalar gets one axis, a
    captured tensor gets a new first axis, unless it has it.

    Raises:
        UnsupportedError: the variant uses ``b`` or ``B`` in another way.
    """
    parameters = {each.name: each for each in program_of(text).parameters}
    leads = all(_has_batch_axis(each) for each in parameters.values() if "B" in (each.shape or ()))
    if not (leads and is_only_index(text, "b", "B")):
        _refuse(text)
    for name in names:
        if not _has_batch_axis(parameters[name]):
            text = _capture(text, parameters[name], "B", "b")
    return text


def _without_blanks(text: str) -> list[str]:
    return [token for token in _tokens(text) if not token.isspace() and token[:2] != "//"]


class _Read(NamedTuple):
    """An index in the body of a text."""

    tensor: str
    axis: int
    words: tuple[str, ...]


def _reads(words: list[str]) -> list[_Read]:
    """All indices in the body of a text."""
    found: list[_Read] = []
    open_brackets: list[
        tuple[str, int, int]
    ] = []  # (the word before it, the axis, the first token)
    for place in range(words.index("{") + 1, len(words)):
        word = words[place]
        if word in ("[", "("):
            tensor = words[place - 1] if word == "[" else ""
            open_brackets.append((tensor, 0, place + 1))
        elif open_brackets and word in ("]", ")", ","):
            tensor, axis, begin = open_brackets.pop()
            if tensor:
                found.append(_Read(tensor, axis, tuple(words[begin:place])))
            if word == ",":
                open_brackets.append((tensor, axis + 1, place + 1))
    return found


@functools.lru_cache(maxsize=1024)
def is_only_index(text: str, index: str, extent: str) -> bool:
    """Whether a variant uses an index and its extent only to read captured tensors.

    That means: ``index`` is only used as the whole index of an axis whose extent is ``extent``.
    Then a part of that axis, of q, k, v and of these tensors, can be a launch of its own.
    """
    shapes = {each.name: each.shape or () for each in program_of(text).parameters}
    words = _without_blanks(text)
    body = words.index("{")
    reads = [
        each
        for each in _reads(words)
        if each.words == (index,) and shapes[each.tensor][each.axis] == extent
    ]
    extents = [axis for shape in shapes.values() for axis in shape if axis == extent]
    return words[body:].count(index) == len(reads) and words.count(extent) == len(extents)


@functools.lru_cache(maxsize=1024)
def with_named_axes(
    text: str,
    shapes: tuple[tuple[str, tuple[int, ...]], ...],
    batch: int,
    heads: int,
    kv_heads: int,
) -> str:
    """The variant with named axes, for captured tensors of these shapes.

    If an extent is bound by the tensor's own shape (``t: i32[N, M]``), has the size of ``B``, ``H``
    or ``Hkv``, and is only read by ``b``, ``h`` or ``hkv``, it gets that name. Texts of traced
    functions have such extents.
    """
    tokens = _tokens(text)
    words = _without_blanks(text)
    given = dict(shapes)
    reads = _reads(words)
    for parameter in program_of(text).parameters:
        for axis, name in enumerate(parameter.shape or ()):
            if name in ("B", "H", "Hkv", "Sq", "Sk") or words.count(name) != 1:
                continue
            indices = {
                each.words for each in reads if (each.tensor, each.axis) == (parameter.name, axis)
            }
            size = given[parameter.name][axis]
            for index, extent, wanted in (
                ("b", "B", batch),
                ("h", "H", heads),
                ("hkv", "Hkv", kv_heads),
            ):
                if indices == {(index,)} and size == wanted:
                    tokens[tokens.index(name)] = extent
    return "".join(tokens)


@functools.lru_cache(maxsize=1024)
def with_captured_scalars(text: str, names: tuple[str, ...]) -> str:
    """The variant with the scalars ``names`` as captured tensors of one element."""
    parameters = {each.name: each for each in program_of(text).parameters}
    for name in names:
        text = _capture(text, parameters[name], "1", "0")
    return text


def _capture(text: str, parameter: Parameter, extent: str, index: str) -> str:
    """Gives a parameter a new first axis in the text, and adds ``index`` wherever it is read."""
    tokens = _tokens(text)
    words = list(_words(tokens))
    is_scalar = parameter.shape is None
    is_declared = False
    for number, place in enumerate(words):
        if tokens[place] != parameter.name:
            continue
        if is_declared:
            if is_scalar:
                tokens[place] += f"[{index}]"
            else:
                tokens[words[number + 1]] += f"{index}, "  # the bracket
        elif tokens[words[number + 1]] == ":":  # not the name of the variant itself
            is_declared = True
            if is_scalar:
                tokens[words[number + 2]] += f"[{extent}]"
                _remove_default(tokens, words[number + 3 :])
            else:
                tokens[words[number + 3]] += f"{extent}, "
    return "".join(tokens)


def _remove_default(tokens: list[str], words: list[int]) -> None:
    """Removes ``= value``, up to the next parameter or the end of the list."""
    for place in words:
        if tokens[place] in (",", ")"):
            return
        tokens[place] = ""


def _refuse(text: str) -> NoReturn:
    variant = program_of(text).native.name
    raise UnsupportedError(
        f"the variant '{variant}' cannot be mapped by jax.vmap: it uses 'b' or 'B' otherwise than "
        "as the first index of tensors whose first extent is B, as t[b, k], and with more batches "
        "in one launch that would have another value; pass all batches in the first axis of q, k "
        "and v without vmap"
    )
