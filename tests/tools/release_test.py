# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""scripts/release: what forbids a release is told with its remedy; checksums are those of sha256sum."""

import importlib.machinery
import importlib.util
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "release"

loader = importlib.machinery.SourceFileLoader("release", str(SCRIPT))
spec = importlib.util.spec_from_loader("release", loader)
release = importlib.util.module_from_spec(spec)
loader.exec_module(release)


class ReleaseTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for file in [*release.VERSIONS, "CHANGELOG.md"]:
            (self.root / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, self.root / file)
        self.version = release.version_in(self.root, "CMakeLists.txt")
        self.replace(
            "CHANGELOG.md", r"## \[Unreleased\]", f"## [Unreleased]\n\n## [{self.version}] - 2026-01-31"
        )
        self.git("init", "--quiet")
        self.commit()

    def git(self, *arguments):
        identity = ["-c", "user.name=Test", "-c", "user.email=test@example.com"]
        subprocess.run(["git", "-C", self.root, *identity, *arguments], check=True)

    def commit(self):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "A change")

    def replace(self, file, pattern, by):
        text, count = re.subn(pattern, by, (self.root / file).read_text(), count=1)
        self.assertEqual(count, 1, f"{file} has no {pattern}")
        (self.root / file).write_text(text)

    def check(self):
        command = [SCRIPT, "--check", "--root", self.root]
        return subprocess.run(command, capture_output=True, text=True)

    def test_a_tree_that_can_be_released(self):
        done = self.check()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, f"release: {self.version} can be released.\n")

    def test_versions_that_differ(self):
        for file, pattern, by in [
            ("pyproject.toml", r'(?m)^version = ".*"$', 'version = "99.1.2"'),
            ("runtime/include/tesela/c/base.h", r"VERSION_PATCH \d+", "VERSION_PATCH 77"),
        ]:
            with self.subTest(file=file):
                self.replace(file, pattern, by)
                self.commit()
                done = self.check()
                self.assertEqual(done.returncode, 2)
                self.assertRegex(
                    done.stderr, rf"release: {file} has version \S+, but CMakeLists.txt has \S+: make"
                )
                self.assertEqual(done.stderr.count("release:"), 1)
                self.git("reset", "--quiet", "--hard", "HEAD~1")

    def test_a_change_log_without_the_version(self):
        self.replace("CHANGELOG.md", rf"## \[{re.escape(self.version)}\] - .*\n", "")
        self.commit()
        done = self.check()
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"CHANGELOG.md has no section '## [{self.version}] - YEAR-", done.stderr)

    def test_a_change_that_is_not_committed(self):
        (self.root / "new.txt").write_text("")
        done = self.check()
        self.assertEqual(done.returncode, 2)
        self.assertIn("these files are not committed: commit or remove them.\n?? new.txt", done.stderr)

    def test_checksums_are_those_of_sha256sum(self):
        files = [self.root / "a.whl", self.root / "b.tar.xz"]
        for number, file in enumerate(files):
            file.write_bytes(bytes([number]) * 1000)
        release.write_checksums(files)
        check = ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"]
        self.assertEqual(subprocess.run(check, cwd=self.root).returncode, 0)
        files[0].write_bytes(b"another")
        self.assertNotEqual(subprocess.run(check, cwd=self.root, capture_output=True).returncode, 0)


if __name__ == "__main__":
    unittest.main()
