# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The wheel that scripts/wheel made, in a new virtual environment with only NumPy: `wheel_test.py
# DIST STUB`. STUB is the folder of a CUDA driver that simulates two GPUs of sm_90. Needs PyPI, for
# NumPy and for NVIDIA's assembler.

import glob
import os
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

DIST = STUB = ""

PROGRAM = """
import os, sys
import numpy as np
import tesela

assert os.path.dirname(tesela.__file__).startswith(sys.prefix), tesela.__file__
assert len(tesela.library()) == 51
q = np.random.default_rng(0).standard_normal((1, 2, 33, 64)).astype(np.float32)
out = tesela.attention(q, q, q, "causal")
s = np.einsum("bhqd,bhkd->bhqk", q, q) / 8 + np.where(np.tri(33, dtype=bool), 0, -np.inf)
p = np.exp(s - s.max(-1, keepdims=True))
assert abs(out - p / p.sum(-1, keepdims=True) @ q).max() < 1e-4
print(tesela.variant("causal").explain(length=256, target="host"))
assert "<svg" in tesela.variant("causal").explain(length=256, target="sm_90").svg
"""

ASSEMBLER = """
import tesela
from tesela import _native

kernel = tesela.variant("causal")._kernel(_native.BF16, 64, 64, 0, ())
known = kernel.describe(1024, 1024)
assert known["target"] == "sm_90" and known["registers"] > 0, known
print(known["assembler"])
"""


class WheelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        wheels = glob.glob(os.path.join(DIST, "tesela-*.whl"))
        if len(wheels) != 1:
            raise AssertionError(f"there are {len(wheels)} wheels in {DIST}: run scripts/wheel")
        cls.wheel = wheels[0]
        cls.folder = tempfile.TemporaryDirectory()
        subprocess.run([sys.executable, "-m", "venv", cls.folder.name], check=True)
        cls.bin = os.path.join(cls.folder.name, "bin")
        cls.pip("install", "numpy")
        cls.pip("install", "--no-index", "--no-deps", cls.wheel)
        cls.environment = {
            "PATH": cls.bin,
            "HOME": cls.folder.name,
            "TESELA_CACHE_DIR": os.path.join(cls.folder.name, "cache"),
        }

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def pip(cls, *arguments):
        command = [os.path.join(cls.bin, "python"), "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([*command, "-q", *arguments], check=True)

    def run_in(self, *command, environment=None):
        ran = subprocess.run(
            [os.path.join(self.bin, command[0]), *command[1:]],
            capture_output=True, text=True, env=environment or self.environment,
            cwd=self.folder.name,
        )
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return ran

    def test_name_and_size(self):
        name = os.path.basename(self.wheel)
        self.assertRegex(name, r"^tesela-[0-9.]+-cp310-abi3-manylinux_2_\d+_x86_64\.whl$")
        glibc = int(re.search(r"manylinux_2_(\d+)", name).group(1))
        self.assertLessEqual(glibc, 34)
        with zipfile.ZipFile(self.wheel) as wheel:
            shipped = sum(info.compress_size for info in wheel.infolist()
                          if info.filename.endswith("/kernels.pack"))
        self.assertLessEqual(shipped, 12_000_000)
        self.assertLessEqual(os.path.getsize(self.wheel) - shipped, 25_000_000)

    def test_contents(self):
        with zipfile.ZipFile(self.wheel) as wheel:
            names = wheel.namelist()
        for name in ("_native.abi3.so", "_native.pyi", "bin/tesela", "lib/libtesela.so.0",
                     "py.typed", "share/tesela/variants/causal.attn"):
            self.assertIn("tesela/" + name, names)
        self.assertTrue(any(name.startswith("tesela/share/tesela/tuned/") for name in names))
        self.assertEqual([name for name in names if "LICENSE" in name][0].count("licenses"), 1)
        outside = [name for name in names if not re.match(r"tesela(-[0-9.]+\.dist-info)?/", name)]
        self.assertEqual(outside, [])

    def test_attention(self):
        ran = self.run_in("python", "-c", PROGRAM)
        self.assertIn("causal", ran.stdout)
        self.assertEqual(ran.stderr, "")

    def test_command(self):
        variants = self.run_in("tesela", "variants").stdout
        self.assertIn("sliding_window", variants)
        self.assertEqual(self.run_in("python", "-m", "tesela", "variants").stdout, variants)

    def test_extra_ptxas(self):
        """NVIDIA's package is found although it is not on the PATH, and before
        /usr/local/cuda/bin."""
        try:
            self.pip("install", self.wheel + "[ptxas]")
        except subprocess.CalledProcessError as error:
            self.skipTest(f"NO PTXAS: PyPI did not give nvidia-cuda-nvcc ({error})")
        environment = {**self.environment, "LD_LIBRARY_PATH": STUB, "TESELA_SHIPPED_KERNELS": ""}
        told = self.run_in("python", "-c", ASSEMBLER, environment=environment).stdout
        self.assertRegex(
            told, "^" + re.escape(self.folder.name) + r"/.*site-packages/nvidia/cu\d+/bin/ptxas\n$"
        )
        cubin = os.path.join(self.folder.name, "causal.cubin")
        self.run_in("tesela", "compile", "causal", "--target", "sm_90", "--emit", "cubin", "-o", cubin)
        with open(cubin, "rb") as file:
            self.assertEqual(file.read(4), b"\x7fELF")


if __name__ == "__main__":
    STUB, DIST = sys.argv.pop(), sys.argv.pop()
    unittest.main()
