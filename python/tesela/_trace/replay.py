# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Traces `and`, `or`, `not`, `if` and chained comparisons.

Python asks a traced value for its truth value. The function runs once for each combination of
answers to these questions, with "true" first. The results are then folded into one expression, in
which `a and b` becomes `a && b` again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .error import error
from .graph import BOOL, Graph, Node

MOST_WAYS: Final = 64

#: A question and its answer.
Answer = tuple[Node, bool]


class Replay:
    """Runs a function with all combinations of answers to its questions."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._planned: list[Answer] = []
        self._given: list[Answer] = []
        self._known: dict[int, bool] = {}
        self._ways = 0
        #: Whether one run returned a condition and another a number.
        self.is_mixed = False

    def decide(self, question: Node) -> bool:
        """The answer to a question in this run."""
        known = self._known.get(id(question))
        if known is not None:
            return known
        at = len(self._given)
        if at < len(self._planned):
            planned, answer = self._planned[at]
            if planned is not question:
                raise error(
                    "the function behaves differently when it is called again, so its 'and', 'or' "
                    "and 'if' cannot be traced; write & and | and where()"
                )
        else:
            answer = True
            self._ways += 1
            if self._ways > MOST_WAYS:
                raise error(
                    f"there are more than {MOST_WAYS} paths through the function's 'and', 'or' and "
                    "'if'; write & and | for 'and' and 'or', and where(c, x, y) for 'x if c else y'"
                )
        self._given.append((question, answer))
        self._known[id(question)] = answer
        self._known[id(self._graph.negation(question))] = not answer
        return answer

    def result(self, run: Callable[[], Node]) -> Node:
        """The results of `run` as one expression."""
        leaves: list[tuple[list[Answer], Node]] = []
        self._planned, self._ways = [], 1
        while True:
            self._given, self._known = [], {}
            node = run()
            leaves.append((self._given, node))
            following = list(self._given)
            while following and not following[-1][1]:
                following.pop()
            if not following:
                break
            following[-1] = (following[-1][0], False)
            self._planned = following
        self.is_mixed = len({node.type == BOOL for _, node in leaves}) > 1
        if len(leaves) == 1:
            return leaves[0][1]
        return self._folded(leaves, 0)

    def _folded(self, leaves: list[tuple[list[Answer], Node]], depth: int) -> Node:
        answers, node = leaves[0]
        if len(answers) == depth:
            return node
        question = answers[depth][0]
        yes = [leaf for leaf in leaves if leaf[0][depth][1]]
        no = leaves[len(yes) :]
        return self._graph.select(
            question,
            self._knowing(self._folded(yes, depth + 1), question, True),
            self._knowing(self._folded(no, depth + 1), question, False),
        )

    def _knowing(self, node: Node, question: Node, answer: bool) -> Node:
        """A condition in a run with a known answer: `a and b` gives `a` if that is false."""
        graph = self._graph
        if node is question:
            return graph.constant(answer)
        if node.type != BOOL or not node.args:
            return node
        if node is graph.negation(question):
            return graph.constant(not answer)
        if node.op in ("&&", "||", "select", "not"):
            args = [self._knowing(arg, question, answer) for arg in node.args]
            if any(new is not old for new, old in zip(args, node.args, strict=True)):
                if node.op == "&&":
                    return graph.both(*args)
                if node.op == "||":
                    return graph.either(*args)
                return graph.negation(*args) if node.op == "not" else graph.select(*args)
        return node
