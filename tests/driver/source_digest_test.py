# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Which files the digest of the compiler's sources covers; it is part of the cache's keys.
# `source_digest_test.py CMAKE PATH-OF-SourceDigest.cmake [unittest options]`.

import os
import subprocess
import sys
import tempfile
import unittest

CMAKE = ""
SCRIPT = ""


class SourceDigest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.header = os.path.join(self.folder.name, "SourceDigest.h")
        self.write("compiler/driver/Compile.cpp", "1")

    def tearDown(self):
        self.folder.cleanup()

    def write(self, path, text):
        path = os.path.join(self.folder.name, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def digest(self):
        subprocess.run([CMAKE, f"-DSOURCE_DIR={self.folder.name}", f"-DOUTPUT={self.header}", "-P",
                        SCRIPT], check=True)
        with open(self.header, encoding="utf-8") as file:
            return file.read()

    def test_what_decides_the_code_is_covered(self):
        seen = {self.digest()}
        for path in ["compiler/a/A.cpp", "compiler/a/A.h", "compiler/a/A.td", "dialects/tile/T.td",
                     "dialects/tile/T.cpp", "templates/forward.mlir", "support/include/tesela/E.h",
                     "support/lib/E.cpp", "runtime/assemble/Ptxas.cpp"]:
            for text in ["1", "2"]:
                self.write(path, text)
                digest = self.digest()
                self.assertNotIn(digest, seen, path)
                seen.add(digest)

    def test_what_does_not_is_not(self):
        before = self.digest()
        self.write("docs/cache.md", "text")
        self.write("templates/variants/causal.attn", "text")
        self.write("runtime/cache/DiskCache.cpp", "text")
        self.assertEqual(self.digest(), before)


if __name__ == "__main__":
    CMAKE, SCRIPT = sys.argv.pop(1), os.path.abspath(sys.argv.pop(1))
    unittest.main()
