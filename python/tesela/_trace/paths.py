# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where a captured value is found again: the way to it from the function that was traced.

A path is a tuple of steps, each of which gives the next object of the one before: a cell of a
closure, a global name, an attribute, an item. A later call of the function walks it to find the
value of that time, so that nothing of a user's data is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter, itemgetter
from typing import Any

Step = Callable[[Any], Any]
Path = tuple[Step, ...]


class Cell:
    """A variable of a function's closure, by its place."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index

    def __call__(self, function: Any) -> Any:
        return function.__closure__[self.index].cell_contents


class Global:
    """A global name of a function."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, function: Any) -> Any:
        return function.__globals__[self.name]


def attribute(name: str) -> Step:
    """An attribute."""
    return attrgetter(name)


def item(key: Any) -> Step:
    """An item of a tuple, a list or a dictionary."""
    return itemgetter(key)


def found(root: Any, path: Iterable[Step]) -> Any:
    """What `path` leads to from `root`."""
    for step in path:
        root = step(root)
    return root
