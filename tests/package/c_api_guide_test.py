# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# docs/c-api.md, docs/cpp.md and README.md: their C and C++ code must be in the examples, and C
# names must be in the headers.

import glob
import os
import re
import unittest

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))


def read(*parts):
    with open(os.path.join(ROOT, *parts), encoding="utf-8") as file:
        return file.read()


def find(pattern):
    return glob.glob(os.path.join(ROOT, pattern))


def words(text):
    """The text with one space between words."""
    return " ".join(text.split())


class Guide(unittest.TestCase):
    guide = read("docs", "c-api.md")

    def test_what_it_shows_is_in_the_examples(self):
        examples = [words(read(path)) for path in find("examples/*/*.c")]
        blocks = re.findall(r"^```c\n(.*?)^```$", self.guide, flags=re.M | re.S)
        self.assertGreater(len(blocks), 3)
        for block in blocks:
            self.assertTrue(any(words(block) in example for example in examples), block)

    def test_what_is_shown_of_cpp_is_in_the_examples(self):
        examples = [words(read(path)) for path in find("examples/*/*.cpp")]
        for page, least in ("docs/cpp.md", 5), ("README.md", 1):
            blocks = re.findall(r"^```cpp\n(.*?)^```$", read(page), flags=re.M | re.S)
            self.assertGreaterEqual(len(blocks), least, page)
            for block in blocks:
                self.assertTrue(any(words(block) in example for example in examples), block)

    def test_its_names_are_there(self):
        headers = "".join(read(path) for path in find("runtime/include/tesela/c/*.h"))
        names = set(re.findall(r"\b(?:tesela|TESELA)_\w+", self.guide))
        self.assertEqual({name for name in names if not re.search(rf"\b{name}\b", headers)}, set())

    def test_every_header_is_named(self):
        headers = {os.path.basename(path) for path in find("runtime/include/tesela/c/*.h")}
        self.assertEqual(set(re.findall(r"^\| `(\w+\.h)` \|", self.guide, flags=re.M)), headers)


if __name__ == "__main__":
    unittest.main()
