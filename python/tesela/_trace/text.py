# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes expressions as a text of Tesela's language."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from .graph import BOOL, F32, Node, in_order

#: Words of the language: they cannot be names of parameters.
WORDS: Final = frozenset(
    re.findall(
        r"\w+",
        "attention let mask score sink const exact true false inf s b h hkv q k B H Hkv Sq Sk "
        "int min max abs clamp exp log sqrt tanh sin cos floor any all sum i32 f32 f16 bf16 bool",
    )
)

_LOOSEST: Final = 0
_PRECEDENCE: Final = {
    "select": 1,
    "||": 2,
    "&&": 3,
    "==": 4,
    "!=": 4,
    "<": 5,
    "<=": 5,
    ">": 5,
    ">=": 5,
    "+": 6,
    "-": 6,
    "*": 7,
    "/": 7,
    "%": 7,
    "float": 7,
    "neg": 8,
    "not": 8,
}
_TIGHTEST: Final = 9
_ASSOCIATIVE: Final = frozenset(("&&", "||"))
_COMPARISONS: Final = frozenset(("==", "!=", "<", "<=", ">", ">="))
_LEAVES: Final = frozenset(("const", "name", "scalar", "extent", "index"))

#: A deeper expression gets a name by 'let'. The language's limit is 200.
_DEEPEST: Final = 60


def identifier(hint: str, taken: Iterable[str]) -> str:
    """A name of the language similar to `hint` that is not in `taken`."""
    name = hint
    if not (name.isidentifier() and name.isascii()):
        name = re.sub(r"\W+", "_", hint, flags=re.ASCII).strip("_") or "value"
        if name[0].isdigit():
            name = f"n{name}"
    if name not in WORDS and name not in taken:
        return name
    number = 1 if name in WORDS else 2
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


class Printer:
    """Writes the statements of one variant. `names` has the names of captured values."""

    def __init__(self, names: dict[object, str]) -> None:
        self._names = names
        self._taken = {*names.values(), *WORDS}
        self._lets: dict[int, str] = {}
        self._lines: list[str] = []
        self._indices: dict[object, str] = {}

    def body(self, statements: list[tuple[str, Node]], order: list[Node]) -> str:
        """The lines of `let`s and of `mask`, `score` and `sink`; `order` has all nodes."""
        uses = dict.fromkeys(map(id, order), 0)
        for node in order:
            for arg in node.args:
                uses[id(arg)] += 1
        for _, node in statements:
            uses[id(node)] += 1
        depth: dict[int, int] = {}
        for node in order:
            deep = 1 + max((depth[id(a)] for a in node.args), default=0)
            is_wanted = uses[id(node)] > 1 or deep > _DEEPEST
            if is_wanted and node.args and not node.bound and not _is_small(node):
                self._let(node)
                deep = 1
            depth[id(node)] = deep
        width = max(len(name) for name, _ in statements)
        for name, node in statements:
            self._lines.append(f"{name:<{width}} = {self.text(node)}")
        return "\n".join(f"  {line}" for line in self._lines)

    def _let(self, node: Node) -> None:
        value = self.text(node)
        name = self._fresh(f"x{len(self._lets)}")
        self._lets[id(node)] = name
        self._lines.append(f"let {name} = {value}")

    def _fresh(self, name: str) -> str:
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name

    def text(self, node: Node, outside: int = _LOOSEST) -> str:
        """The text of `node` inside an operator of precedence `outside`."""
        named = self._lets.get(id(node))
        if named is not None:
            return named
        op = node.op
        if op == "const":
            return _literal(node, outside)
        if op == "name":
            return self._names.get(("name", node.payload), str(node.payload))
        if op in ("scalar", "extent"):
            return self._names[(op, node.payload)]
        if op == "index":
            return self._indices[node.payload]
        if op == "read":
            return f"{self._names[('read', node.payload)]}[{self._list(node.args)}]"
        if op == "call":
            return f"{node.payload}({self._list(node.args)})"
        if op == "reduce":
            return self._reduction(node)
        precedence = _PRECEDENCE[op]
        if op == "select":
            c, a, b = node.args
            text = f"{self.text(c, 2)} ? {self.text(a, 2)} : {self.text(b, 1)}"
        elif op in ("neg", "not"):
            sign = "-" if op == "neg" else "!"
            text = sign + self.text(node.args[0], _TIGHTEST)
        elif op == "float":
            text = f"1.0 * {self.text(node.args[0], 8)}"
        else:
            a, b = node.args
            left = 6 if op in _COMPARISONS else precedence
            right = left if op in _ASSOCIATIVE or op in _COMPARISONS else precedence + 1
            text = f"{self.text(a, left)} {op} {self.text(b, right)}"
        return f"({text})" if precedence < outside else text

    def _list(self, nodes: tuple[Node, ...]) -> str:
        return ", ".join(self.text(node) for node in nodes)

    def _reduction(self, node: Node) -> str:
        assert isinstance(node.payload, tuple)
        kind, index = node.payload
        outer = self._indices.get(index)
        letter = "i" + str(len(self._indices)) if self._indices else "i"
        taken = {*self._taken, *self._indices.values()}
        while letter in taken:
            letter += "_"
        bound = self.text(node.args[0])
        self._indices[index] = letter
        text = f"{kind}({letter} < {bound}: {self.text(node.args[1])})"
        if outer is None:
            del self._indices[index]
        else:
            self._indices[index] = outer
        return text


def _is_small(node: Node) -> bool:
    """Whether `node` is a negated or converted name, which needs no `let`."""
    return node.op in ("neg", "not", "float") and node.args[0].op in _LEAVES


def _literal(node: Node, outside: int) -> str:
    value = node.payload
    if node.type == BOOL:
        return "true" if value else "false"
    if node.type == F32:
        number = float(value)  # type: ignore[arg-type]
        text = _float_text(abs(number))
        if number != number:
            return "(inf - inf)"
        if str(number).startswith("-"):
            text = f"-{text}"
    else:
        text = str(value)
    return f"({text})" if text.startswith("-") and outside > 8 else text


def _float_text(number: float) -> str:
    if number >= 3.4028235677973366e38:  # half a unit above the largest f32
        return "inf"
    if number < 7.1e-46:  # less than half of the smallest f32
        return "0.0"
    text = repr(number)
    return text if "." in text or "e" in text or "n" in text else f"{text}.0"


def expression(node: Node) -> str:
    """`node` as text for messages, with captured values by number."""
    names: dict[object, str] = {}
    for each in in_order((node,)):
        if each.op in ("scalar", "extent", "read"):
            names[(each.op, each.payload)] = f"{each.op}_{each.payload}"
    return Printer(names).text(node)


__all__ = ["WORDS", "Printer", "expression", "identifier"]
