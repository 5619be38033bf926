# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# libtesela.so beside other shared LLVMs of the system, each in a process of its own:
# `beside_llvm_test.py CC LIBRARY`. LLVM 22, with which Tesela is built, is always there. Others are
# tested if they are installed.

import glob
import itertools
import os
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
INCLUDE = os.path.join(HERE, "..", "..", "runtime", "include")
CC = LIBRARY = ""


def system_llvms():
    """{major version: path of a shared LLVM}. Older versions lack functions that the program
    calls."""
    found = {}
    for path in glob.glob("/usr/lib/*/libLLVM*.so*") + glob.glob("/usr/lib/llvm-*/lib/libLLVM*.so*"):
        name = re.search(r"libLLVM(?:-|\.so\.)(\d+)", os.path.basename(os.path.realpath(path)))
        if name and int(name.group(1)) >= 11:
            found[int(name.group(1))] = os.path.realpath(path)
    return found


class BesideLLVM(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.program = os.path.join(cls.folder.name, "beside_llvm")
        subprocess.run([CC, "-std=c99", "-Wall", "-Wextra", "-Werror", "-I", INCLUDE,
                        os.path.join(HERE, "BesideLLVM.c"), "-o", cls.program, "-ldl"], check=True)

    def test_both_work(self):
        llvms = system_llvms()
        self.assertIn(22, llvms)
        for version, first, scope in itertools.product(
                llvms, ("tesela", "llvm"), ("local", "global")):
            with self.subTest(llvm=version, first=first, scope=scope):
                # With a shared symbol one may wait for the other's lock forever.
                done = subprocess.run([self.program, LIBRARY, llvms[version], first, scope],
                                      capture_output=True, text=True, timeout=600)
                self.assertEqual((done.returncode, done.stdout, done.stderr),
                                 (0, "both work\n", ""))

    def test_nothing_is_asked_of_others(self):
        """Ignores the C library's symbols, and optional symbols of the compiler and of
        Zstandard."""
        text = subprocess.run(["nm", "--dynamic", "--undefined-only", LIBRARY], check=True,
                              capture_output=True, text=True).stdout
        left = [line.split()[-1] for line in text.splitlines() if "@GLIBC_" not in line]
        optional = {"_ITM_deregisterTMCloneTable", "_ITM_registerTMCloneTable", "__gmon_start__",
                    "ZSTD_trace_compress_begin", "ZSTD_trace_compress_end",
                    "ZSTD_trace_decompress_begin", "ZSTD_trace_decompress_end"}
        self.assertEqual(set(left) - optional, set())


if __name__ == "__main__":
    CC, LIBRARY = sys.argv.pop(1), os.path.abspath(sys.argv.pop(1))
    unittest.main()
