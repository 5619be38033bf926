# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Links between the documents: the target must exist, including its heading.

import glob
import os
import re
import unittest

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))


def without_code(text):
    text = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"(`+).*?\1", "", text, flags=re.DOTALL)


def links(text):
    """Targets of [..](..), of [..]: .., and of HTML's src and href."""
    text = without_code(text)
    return (re.findall(r"\]\(\s*([^)\s]+)", text)
            + re.findall(r"^\[[^\]]+\]:\s*(\S+)", text, re.MULTILINE)
            + re.findall(r"\b(?:src|href|srcset)=\"([^\"]+)\"", text))


def anchors(path):
    """The anchors of a page's headings, as GitHub makes them."""
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"^```.*?^```", "", file.read(), flags=re.DOTALL | re.MULTILINE)
    found = set()
    for heading in re.findall(r"^#+ +(.*?) *$", text, re.MULTILINE):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        found.add(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-"))
    return found


class Links(unittest.TestCase):
    def test_what_documents_link_to_is_there(self):
        documents = [os.path.join(ROOT, name) for name in ("README.md", "CONTRIBUTING.md")]
        documents += glob.glob(os.path.join(ROOT, "docs", "**", "*.md"), recursive=True)
        count = 0
        for document in documents:
            with open(document, encoding="utf-8") as file:
                targets = links(file.read())
            for target in targets:
                if re.match(r"[a-z][a-z0-9+.-]*:", target):
                    continue
                count += 1
                with self.subTest(os.path.relpath(document, ROOT), link=target):
                    path, _, anchor = target.partition("#")
                    path = os.path.join(os.path.dirname(document), path) if path else document
                    self.assertTrue(os.path.exists(path), "there is no such file")
                    if anchor and path.endswith(".md"):
                        self.assertIn(anchor, anchors(path))
        self.assertGreater(count, 100)

    def test_what_links_are(self):
        text = "[a](b.md) `[c](d)` ![e](f.svg)\n```\n[g](h)\n```\n<img src=\"i.svg\">\n[j]: k.md\n"
        self.assertEqual(links(text), ["b.md", "f.svg", "k.md", "i.svg"])


if __name__ == "__main__":
    unittest.main()
