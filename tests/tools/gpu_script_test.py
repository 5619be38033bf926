# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# gpu_script_test.py SCRIPT: scripts/gpu with programs that pass, fail, skip, and never end.

import os
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.abspath(sys.argv.pop())


class GpuScript(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.programs = os.path.join(self.folder.name, "bin")
        os.mkdir(self.programs)
        gtest = "echo '[       OK ] A.b (1 ms)'; echo '[==========] 1 test ran.'"
        for name in ("tesela", "tesela_planted_defects"):
            self.write(name, "exit 0")
        self.write("tesela_device_test", gtest)
        self.write("tesela_tensor_map_test", gtest)
        self.write("tesela_random_variants", "echo '3 variants on cuda, 0 failed, 1.0 s'")
        self.write("python3", "echo 'causal: the eager bits'")
        self.write("compute-sanitizer", "exit 0")
        self.write("nvidia-smi", "exit 0")

    def write(self, name, script):
        path = os.path.join(self.programs, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/bash\n" + script + "\n")
        os.chmod(path, 0o755)

    def run_script(self, seconds=60):
        environment = dict(os.environ, PATH=self.programs + ":" + os.environ["PATH"])
        result = subprocess.run(
            [SCRIPT, self.folder.name, str(seconds)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        lines = {line.split()[0]: line for line in result.stdout.splitlines() if line}
        return result.returncode, lines, result.stderr

    def verdict(self, line):
        """How a part ended: the second column, which is 14 characters wide behind the 16 of its name."""
        return line[17:31].strip()

    def test_each_part_has_a_line(self):
        _, lines, _ = self.run_script()
        for part in ("graphs", "torch-graphs", "templates", "corpus", "grid", "random-sm90", "random-sm80"):
            self.assertEqual(self.verdict(lines[part]), "passed", lines[part])
        self.assertIn("0 failed", lines["random-sm90"])

    def package(self, pytest, folder="py"):
        """Makes a package, and a python3 whose pytest runs `pytest`. It has JAX, but no PyTorch."""
        os.makedirs(os.path.join(self.folder.name, folder, "tesela"))
        path = os.path.join(self.folder.name, folder, "tesela", "_native.abi3.so")
        with open(path, "w", encoding="utf-8"):
            pass
        self.write(
            "python3",
            "case $* in *\\'torch\\'*) exit 1 ;; *\\'jax\\'*) ;; *pytest*gpu_jax_test.py*)\n"
            + f"[[ $PYTHONPATH == {self.folder.name}/{folder}* ]] || exit 9\n{pytest} ;; esac",
        )

    def test_the_package_is_tested(self):
        for folder in ("python", "py"):
            self.package("echo 2 passed, 1 skipped in 1.23s", folder)
            _, lines, _ = self.run_script()
            self.assertEqual(self.verdict(lines["jax"]), "passed", lines["jax"])
            self.assertRegex(lines["jax"], r"[2-8] passed, 0 failed, [1-4] skipped")

    def test_a_failure_in_the_package_is_told(self):
        self.package("echo '=== 1 failed, 2 passed in 1.23s ==='; exit 1")
        code, lines, _ = self.run_script()
        self.assertEqual(code, 1)
        self.assertEqual(self.verdict(lines["jax"]), "FAILED (1)")
        self.assertRegex(lines["jax"], "[1-4] failed")

    def test_what_the_package_lacks_is_told(self):
        _, lines, _ = self.run_script()
        self.assertEqual(self.verdict(lines["jax"]), "skipped")
        self.assertRegex(lines["jax"][31:], "there is no .*_native.abi3.so")
        self.package("echo 'SKIPPED [1] a.py:3: no device'; echo 1 skipped in 1.23s")
        _, lines, _ = self.run_script()
        for part, reason in (("torch", "no Python here has both torch and pytest"), ("jax", "no device")):
            self.assertEqual(self.verdict(lines[part]), "skipped", lines[part])
            self.assertIn(reason, lines[part][31:])

    def test_copied_files_are_completed(self):
        """scripts/gpu-files packs the library and copies the variants once: scripts/gpu
        completes the files."""
        self.package("echo 2 passed in 1.23s")
        share = os.path.join(self.folder.name, "share")
        os.makedirs(os.path.join(share, "tesela", "variants"))
        os.mkdir(os.path.join(self.folder.name, "lib"))
        library = os.path.join(self.folder.name, "lib", "libtesela.so.0")
        with open(library, "w", encoding="utf-8") as file:
            file.write("the library")
        subprocess.run(["xz", library], check=True)
        for _ in range(2):  # the second time everything is there already
            _, lines, error = self.run_script()
            self.assertEqual(self.verdict(lines["jax"]), "passed", lines["jax"] + error)
        with open(library, encoding="utf-8") as file:
            self.assertEqual(file.read(), "the library")
        package = os.path.join(self.folder.name, "py", "tesela", "share", "tesela", "variants")
        self.assertTrue(os.path.isdir(package))

    def test_a_failure_is_told(self):
        self.write("tesela_random_variants", "echo '3 variants on cuda, 1 failed, 1.0 s'; exit 1")
        code, lines, _ = self.run_script()
        self.assertEqual(code, 1)
        self.assertEqual(self.verdict(lines["random-sm90"]), "FAILED (1)")
        self.assertIn("1 failed", lines["random-sm90"])

    def test_what_does_not_end_is_cut(self):
        self.write("tesela_random_variants", "sleep 100")
        code, lines, _ = self.run_script(seconds=20)
        self.assertEqual(code, 1)
        self.assertRegex(self.verdict(lines["random-sm90"]), r"^cut at [0-9]+ s$")

    def test_a_crash_in_the_grid_is_a_failure(self):
        self.write("tesela_device_test", "kill -SEGV $$")
        code, lines, _ = self.run_script()
        self.assertEqual(code, 1)
        self.assertEqual(self.verdict(lines["grid"]), "FAILED (1)")

    def test_skips_without_a_gpu(self):
        self.write("nvidia-smi", "exit 9")
        code, _, error = self.run_script()
        self.assertEqual(code, 77)
        self.assertIn("finds no GPU", error)

    def test_what_is_missing_is_named(self):
        os.remove(os.path.join(self.programs, "tesela_device_test"))
        code, _, error = self.run_script()
        self.assertEqual(code, 2)
        self.assertIn("tesela_device_test is missing", error)


if __name__ == "__main__":
    unittest.main()
