# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Paths that lead from a traced function to its captured values.

A path is a tuple of steps. Each step gives the next object from the one before: a cell of a
closure, a global name, an attribute, or an item. A later call follows the path to find the present
value, so that no user data is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter, itemgetter
from typing import Any

Step = Callable[[Any], Any]
Path = tuple[Step, ...]


class Cell:
    """A variable of a function's closure, by its index."""

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


class Walk:
    """Several paths from one root. Common beginnings are followed once."""

    def __init__(self) -> None:
        self._places: dict[tuple[int, int], int] = {}
        self._steps: list[tuple[int, Step]] = []

    def add(self, path: Iterable[Step]) -> int:
        """Adds a path. Gives the index of its end in the result of `ends`."""
        place = 0
        for step in path:
            key = (place, id(step))
            if key not in self._places:
                self._steps.append((place, step))
                self._places[key] = len(self._steps)
            place = self._places[key]
        return place

    def ends(self, root: Any) -> list[Any]:
        """The objects that the paths lead to now."""
        result = [root]
        append = result.append
        for place, step in self._steps:
            append(step(result[place]))
        return result
