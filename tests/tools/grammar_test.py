# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The editors' grammar must know every word of the language, as listed in Sema.cpp.

import json
import re
import unittest

from source_tree import text_of


def reserved_words():
    """The strings of kReserved and of kFunctions."""
    sema = text_of("compiler", "frontend", "Sema.cpp")
    reserved = re.search(r"kReserved\[\] = \{(.*?)\};", sema, re.DOTALL).group(1)
    functions = re.search(r"kFunctions\[\] = \{(.*?)\};", sema, re.DOTALL).group(1)
    return set(re.findall(r'"(\w+)"', reserved + functions))


def patterns_of(rule):
    """Each (scope, regular expression) of a rule and of the rules inside it."""
    if "match" in rule:
        yield rule.get("name", "captures"), rule["match"]
    for inner in rule.get("patterns", []):
        yield from patterns_of(inner)


class GrammarTest(unittest.TestCase):
    def setUp(self):
        self.grammar = json.loads(text_of("tools", "editors", "attn.tmLanguage.json"))
        self.rules = [
            (scope, re.compile(match))
            for rule in self.grammar["repository"].values()
            for scope, match in patterns_of(rule)
        ]

    def scope_at(self, line, position):
        """The scope of the first rule, in the grammar's order, that matches there."""
        for include in self.grammar["patterns"]:
            rule = self.grammar["repository"][include["include"].removeprefix("#")]
            for scope, match in patterns_of(rule):
                if re.compile(match).match(line, position):
                    return scope
        return None

    def test_every_rule_is_included(self):
        included = [entry["include"].removeprefix("#") for entry in self.grammar["patterns"]]
        self.assertEqual(sorted(included), sorted(self.grammar["repository"]))

    def test_every_word_of_the_language_has_a_scope(self):
        words = reserved_words()
        self.assertGreater(len(words), 40)
        for word in words:
            # In the places of a text where it occurs: before '=', '(' or an operator.
            lines = (f"{word} = x", f"{word}(x)", f"{word} + x")
            self.assertTrue(any(self.scope_at(line, 0) for line in lines), word)

    def test_the_grammar_has_no_word_that_the_language_lacks(self):
        for scope, pattern in self.rules:
            for group in re.findall(r"\\b\(([\w|]+)\)", pattern.pattern):
                for word in group.split("|"):
                    self.assertIn(word, reserved_words(), scope)

    def test_names_that_only_begin_as_words_do_have_none(self):
        for name in ("masked", "summary", "qk", "int_table", "Sqrt", "f32x"):
            self.assertIsNone(self.scope_at(name + " + x", 0), name)

    def test_a_variant(self):
        line = "  score = s + slope[h] * (k - 0.5e-3) // a comment"
        for part, scope in [
            ("score", "keyword.control.attn"),
            ("= s", "keyword.operator.attn"),
            ("s +", "variable.language.attn"),
            ("h]", "variable.language.attn"),
            ("0.5e-3", "constant.numeric.attn"),
            ("// a", "comment.line.double-slash.attn"),
        ]:
            self.assertEqual(self.scope_at(line, line.index(part)), scope, part)
        self.assertIsNone(self.scope_at(line, line.index("slope")))


if __name__ == "__main__":
    unittest.main()
