# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Uses an equality to simplify a comparison beside it.

Masks of documents often count tokens from the beginning of each document:

    id[q] == id[k] && q - start[id[q]] >= k - start[id[k]]

If the document numbers are equal, so are the starts, and `q >= k` is left. The analysis can then
say which tiles are empty, and a kernel does not read the starts.
"""

from __future__ import annotations

from collections.abc import Callable

from .graph import BOOL, I32, Graph, Node, in_order, number_of

#: An equality. The first node may replace the second.
_Fact = tuple[Node, Node]
#: A sum: node -> factor. The constant has the key None.
_Sum = dict[Node | None, int]


def simplified(graph: Graph, node: Node, facts: tuple[_Fact, ...] = ()) -> Node:
    """`node`, a condition or a number, simplified where `facts` hold."""
    if node.op == "&&":
        parts = _conjuncts(node)
        own = tuple(fact for part in parts for fact in _facts(part))
        if not own and not facts:
            return _rebuilt(graph, node, lambda x: simplified(graph, x))
        result = graph.true
        for part in parts:
            known = facts if _facts(part) else facts + own
            result = graph.both(result, simplified(graph, part, known))
        return result
    if node.op in ("||", "not", "select"):
        return _rebuilt(graph, node, lambda x: simplified(graph, x, facts) if x.type == BOOL else x)
    if facts and node.op in _COMPARISONS and node.args[0].type == node.args[1].type == I32:
        return _compared(graph, node, facts)
    return node


_COMPARISONS = frozenset(("<", "<=", ">", ">=", "==", "!="))


def _conjuncts(node: Node) -> list[Node]:
    parts: list[Node] = []
    stack = [node]
    while stack:
        each = stack.pop()
        if each.op == "&&":
            stack.extend(reversed(each.args))
        else:
            parts.append(each)
    return parts


def _facts(node: Node) -> list[_Fact]:
    if node.op != "==" or node.args[0].type != I32 or node.args[1].type != I32:
        return []
    a, b = node.args
    return [(a, b)] if b.op != "const" and a.op != "const" else []


def _rebuilt(graph: Graph, node: Node, change: Callable[[Node], Node]) -> Node:
    args = [change(arg) for arg in node.args]
    if all(new is old for new, old in zip(args, node.args, strict=True)):
        return node
    if node.op == "&&":
        return graph.both(*args)
    if node.op == "||":
        return graph.either(*args)
    return graph.negation(*args) if node.op == "not" else graph.select(*args)


def _compared(graph: Graph, node: Node, facts: tuple[_Fact, ...]) -> Node:
    """A comparison without the terms that are the same on both sides."""
    left, right = (_sum_of(arg) for arg in node.args)
    before = len(left) + len(right)
    left, right = (_replaced(graph, side, facts) for side in (left, right))
    for key in [key for key in left if key in right]:
        if left[key] == right[key]:
            del left[key], right[key]
    if len(left) + len(right) >= before:
        return node
    return graph.compare(node.op, _node_of(graph, left), _node_of(graph, right))


def _sum_of(node: Node) -> _Sum:
    total: _Sum = {}

    def add(node: Node, factor: int) -> None:
        if node.op == "const":
            total[None] = total.get(None, 0) + factor * int(number_of(node))
        elif node.op in ("+", "-"):
            add(node.args[0], factor)
            add(node.args[1], factor if node.op == "+" else -factor)
        elif node.op == "neg":
            add(node.args[0], -factor)
        else:
            total[node] = total.get(node, 0) + factor

    add(node, 1)
    return total


def _replaced(graph: Graph, side: _Sum, facts: tuple[_Fact, ...]) -> _Sum:
    new = {id(gone): kept for kept, gone in facts}
    for node in in_order(key for key in side if key is not None):
        if node.args and id(node) not in new:
            args = tuple(new.get(id(arg), arg) for arg in node.args)
            if args != node.args:
                new[id(node)] = graph.node(node.op, node.type, node.payload, args)
    result: _Sum = {}
    for key, factor in side.items():
        key = key if key is None else new.get(id(key), key)
        result[key] = result.get(key, 0) + factor
    return {key: factor for key, factor in result.items() if factor}


def _node_of(graph: Graph, side: _Sum) -> Node:
    total: Node | None = None
    for is_added in (True, False):
        for key, factor in side.items():
            if (factor > 0) != is_added:
                continue
            each = graph.constant(1) if key is None else key
            each = graph.arithmetic("*", each, graph.constant(abs(factor)))
            if total is None:
                total = each if is_added else graph.negative(each)
            else:
                total = graph.arithmetic("+" if is_added else "-", total, each)
    return graph.constant(0) if total is None else total
