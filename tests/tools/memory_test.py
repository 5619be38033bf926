# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The compiler under Valgrind's memory checker: `memory_test.py TESELA LIBRARY TEMPLATES [unittest options]`. A pass
# that looks at an operation after it has replaced it works nearly always, and crashes now and then. Exit status 77:
# valgrind or strip is missing.

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

TESELA = LIBRARY = TEMPLATES = ""
FAULT = 99

# Together they run most passes. While the first was compiled, a pass once read a loop that it had replaced.
KERNELS = {
    "finder": ["documents_causal", "--target=sm_90", "--algorithm=backward_fused", "--emit=ptx"],
    "items_beside_each_other": ["sliding_window", "--target=sm_90", "--emit=ptx"],
    "mma_sync": ["softcap_window", "--target=sm_80", "--algorithm=backward", "--emit=ptx"],
    "parameters": ["alibi", "--target=sm_90", "--algorithm=backward_parameters", "--emit=ptx"],
    "host": ["strided", "--target=host", "--emit=object"],
}


class Memory(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Valgrind 3.19 does not read the debug information of today's compilers and ends there.
        cls.folder = tempfile.TemporaryDirectory()
        at = cls.folder.name
        os.mkdir(os.path.join(at, "bin"))
        os.mkdir(os.path.join(at, "share"))
        os.symlink(TEMPLATES, os.path.join(at, "share", "tesela"))
        cls.tesela = os.path.join(at, "bin", "tesela")
        for source, copy in ((TESELA, cls.tesela), (LIBRARY, os.path.join(at, os.path.basename(LIBRARY)))):
            subprocess.run(["strip", "-o", copy, os.path.realpath(source)], check=True)
        cls.environment = dict(os.environ, LD_LIBRARY_PATH=at)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_kernels(self):
        valgrind = ["valgrind", "--quiet", f"--error-exitcode={FAULT}", self.tesela]
        for name, arguments in KERNELS.items():
            with self.subTest(name):
                out = os.path.join(self.folder.name, name)
                command = [*valgrind, "compile", *arguments, "-o", out]
                done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=self.environment)
                self.assertNotEqual(done.returncode, FAULT, f"{arguments}: {done.stderr}")
                self.assertEqual(done.returncode, 0, f"{arguments}: {done.stderr}")
                self.assertTrue(os.path.getsize(out))


if __name__ == "__main__":
    for tool in ("valgrind", "strip"):
        if not shutil.which(tool):
            print(f"SKIPPED: {tool} is missing; scripts/install-packages installs it")
            sys.exit(77)
    TESELA, LIBRARY, TEMPLATES = sys.argv[1:4]
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
