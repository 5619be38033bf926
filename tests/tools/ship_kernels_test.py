# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Kernels that come with the library, from the program that makes them to a machine that never
# compiled: `ship_kernels_test.py TESELA TESELA_SHIP_KERNELS FOLDER-OF-A-DRIVER PYTHON-PACKAGE`. The
# driver simulates two GPUs of sm_90 and computes nothing. Needs ptxas. PYTHON-PACKAGE is the folder
# with the package `tesela`, or "" without one.

import json
import os
import subprocess
import sys
import tempfile
import unittest

TESELA = SHIP = DRIVER = PACKAGE = ""
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")

# (queries, keys) of one launch of each kind that the package distinguishes.
LENGTHS = [(65, 65), (512, 20000), (1024, 1024), (2048, 3000), (2048, 9000), (4096, 1000),
           (4096, 4096), (16384, 16384)]

ASK = """
import json, sys
import tesela
from tesela import _native

kernel = tesela.variant(sys.argv[1])._kernel(_native.BF16, 64, 64, 0, ())
print(json.dumps([kernel.describe(*lengths)["origin"] for lengths in json.loads(sys.argv[2])]))
"""


def variant(name):
    return os.path.join(ROOT, "templates", "variants", name + ".attn")


class ShipKernels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.pack = os.path.join(cls.folder.name, "kernels.pack")
        made = subprocess.run(
            [SHIP, cls.pack, variant("full"), variant("causal"), "--target", "sm_90", "--dtype",
             "bf16", "--head-dim", "64", "--tuned",
             os.path.join(ROOT, "data", "tuned", "h200.json")],
            capture_output=True, text=True, check=False)
        if made.returncode != 0:
            raise AssertionError(made.stdout + made.stderr)
        cls.said = made.stdout

    def setUp(self):
        cache = tempfile.TemporaryDirectory()
        self.addCleanup(cache.cleanup)
        self.cache = cache.name
        # Without ptxas: for a kernel that is not in the pack the driver assembles, which gives
        # another kernel.
        self.environment = {
            "PATH": "/usr/bin:/bin", "HOME": self.cache, "TESELA_CACHE_DIR": self.cache,
            "LD_LIBRARY_PATH": DRIVER, "TESELA_SHIPPED_KERNELS": self.pack,
            "PYTHONPATH": PACKAGE, "PYTHONDONTWRITEBYTECODE": "1",
        }

    def origin(self, name, *arguments, **environment):
        done = subprocess.run(
            [TESELA, "run", name, "--heads", "1", "--head-dim", "64", "--repeat", "1",
             "--no-check", "--json", *arguments],
            capture_output=True, text=True, env={**self.environment, **environment}, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["kernel"]["origin"], done.stderr

    def test_what_is_made(self):
        self.assertRegex(self.said, r"kernels.pack: \d+ kernels under \d+ keys, .* MB, by release \d")

    def test_the_command_compiles_nothing(self):
        for name in ("full", "causal"):
            for length in (100, 128, 300, 1024, 1500, 4096, 16384):
                self.assertEqual(self.origin(name, "--length", str(length)), ("package", ""),
                                 f"{name} {length}")
        self.assertLessEqual(set(os.listdir(self.cache)), {"assemblers"})

    def test_programs_that_name_no_length_compile_nothing(self):
        from_package = {**self.environment, "TESELA_CACHE_DIR": self.cache}
        done = subprocess.run(
            [os.path.join(os.path.dirname(SHIP), "..", "first-result", "tesela_first_result"),
             "--runs", "1", "--from", "package", "--cache-folder", self.cache, variant("causal")],
            capture_output=True, text=True, env=from_package, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"causal.attn +package +\d")

    def test_python_compiles_nothing(self):
        if not PACKAGE:
            self.skipTest("the Python package is not built")
        for name in ("full", "causal"):
            done = subprocess.run([sys.executable, "-c", ASK, name, json.dumps(LENGTHS)],
                                  capture_output=True, text=True, env=self.environment, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertLessEqual(set(json.loads(done.stdout)), {"package", "memory"})
        self.assertLessEqual(set(os.listdir(self.cache)), {"assemblers"})

    def test_what_is_not_in_the_pack_is_compiled(self):
        ptxas = {"PATH": os.environ["PATH"]}
        for arguments in (["--length", "1", "--kv-length", "1024"], ["--head-dim-v", "32"],
                          ["--dtype", "f16"]):
            self.assertEqual(self.origin("causal", *arguments, **ptxas), ("compiled", ""))
            self.assertEqual(self.origin("causal", *arguments, **ptxas), ("disk cache", ""))

    def test_a_damaged_pack_is_told(self):
        damaged = os.path.join(self.folder.name, "damaged.pack")
        with open(self.pack, "rb") as whole, open(damaged, "wb") as file:
            file.write(whole.read()[:5000])
        origin, told = self.origin("causal", "--length", "1024", TESELA_SHIPPED_KERNELS=damaged,
                                   PATH=os.environ["PATH"])
        self.assertEqual(origin, "compiled")
        self.assertIn("damaged.pack are not used", told)

    def test_check(self):
        self.assertEqual(subprocess.run([SHIP, self.pack, "--check"], check=False).returncode, 0)
        with open(self.pack, "rb") as file:
            bytes_ = file.read()
        other = os.path.join(self.folder.name, "other.pack")
        with open(other, "wb") as file:
            file.write(b"TESELA\0P" + bytes_[8:20] + b"T" + bytes_[21:])
        refused = subprocess.run([SHIP, other, "--check"], capture_output=True, text=True,
                                 check=False)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("damaged", refused.stderr)


if __name__ == "__main__":
    TESELA, SHIP, DRIVER, PACKAGE = (os.path.abspath(path) if path else ""
                                     for path in (sys.argv.pop(1) for _ in range(4)))
    unittest.main()
