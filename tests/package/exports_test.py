# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The symbols that libtesela.so exports: `exports_test.py LIBRARY [--write]`.
#
# The C functions must be those of tests/runtime/c_api_abi.txt, and the C++ functions those of
# exports.txt, demangled. Nothing else may be exported: LLVM, MLIR, {fmt}, the JSON reader and the
# C++ library's templates.

import os
import re
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
LIST = os.path.join(HERE, "exports.txt")
C_INTERFACE = os.path.join(HERE, "..", "runtime", "c_api_abi.txt")
LIBRARY = ""


def exported():
    """({C functions}, {C++ functions}, {all other symbols}), by name."""
    text = subprocess.run(["nm", "--dynamic", "--defined-only", "--demangle", LIBRARY], check=True,
                          capture_output=True, text=True).stdout
    c, cpp, other = set(), set(), set()
    for line in text.splitlines():
        _, kind, name = line.split(" ", 2)
        if kind == "T" and re.fullmatch(r"tesela_\w+", name):
            c.add(name)
        elif kind == "T" and name.startswith("tesela::"):
            cpp.add(name)
        else:
            other.add(line)
    return c, cpp, other


class Exports(unittest.TestCase):
    def test_the_c_api(self):
        with open(C_INTERFACE, encoding="utf-8") as file:
            declared = set(re.findall(r"^function .*?(\w+)\(", file.read(), flags=re.M))
        self.assertEqual(exported()[0], declared)

    def test_the_cpp_api(self):
        with open(LIST, encoding="utf-8") as file:
            listed = {line for line in file.read().splitlines() if not line.startswith("#")}
        self.assertEqual(exported()[1], listed,
                         "where that is meant: exports_test.py LIBRARY --write")

    def test_it_stays_loaded(self):
        flags = subprocess.run(["readelf", "--dynamic", "--wide", LIBRARY], check=True,
                               capture_output=True, text=True).stdout
        self.assertRegex(flags, r"\(FLAGS_1\).*NODELETE")

    def test_nothing_else(self):
        self.assertEqual(exported()[2], set())


if __name__ == "__main__":
    LIBRARY = sys.argv.pop(1)
    if sys.argv[1:] == ["--write"]:
        with open(LIST, "w", encoding="utf-8") as list_file:
            list_file.write("# The C++ functions that libtesela.so exports: exports_test.py.\n"
                            + "".join(name + "\n" for name in sorted(exported()[1])))
    else:
        unittest.main()
