# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""scripts/lint --tidy: finds planted mistakes in what changed, names what it left out, tells what is missing."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

GOOD = "int twice(int value) { return value + value; }\n"
# Uses `text` after it was moved from.
FAULTY = """#include <string>
#include <utility>
std::size_t length(std::string text) {
  std::string other = std::move(text);
  return other.size() + text.size();
}
"""
FAULTY_HEADER = "inline int *none() { return 0; }\n"  # modernize-use-nullptr


class TidyTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        (self.root / "build/release").mkdir(parents=True)
        (self.root / ".gitignore").write_text("/build/\n")
        shutil.copy(ROOT / ".clang-tidy", self.root)
        self.git("init", "--quiet", "--initial-branch", "main")

    def git(self, *arguments):
        identity = ["-c", "user.name=Test", "-c", "user.email=test@example.com"]
        subprocess.run(["git", "-C", self.root, *identity, *arguments], check=True)

    def commit(self, **files):
        self.write(**files)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "A change")

    def write(self, **files):
        """Writes NAME.cpp, or for NAME_h the header support/NAME.h; the build compiles each NAME.cpp."""
        for name, text in files.items():
            path = self.root / (f"support/{name[:-2]}.h" if name.endswith("_h") else f"{name}.cpp")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        commands = [
            # The option that clang does not know is one of g++.
            {
                "directory": str(self.root),
                "file": name,
                "command": f"c++ -std=c++20 -Wno-restrict -c {name}",
            }
            for name in sorted(path.name for path in self.root.glob("*.cpp"))
        ]
        (self.root / "build/release/compile_commands.json").write_text(json.dumps(commands))

    def tidy(self, *arguments):
        environment = {
            name: value for name, value in os.environ.items() if name != "TESELA_BUILD_FOLDER"
        }
        command = [ROOT / "scripts/lint", "--tidy", "--root", self.root, *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=environment)

    def test_finds_a_use_after_move_in_the_last_commit(self):
        self.commit(old=FAULTY)
        self.commit(good=GOOD, faulty=FAULTY)
        done = self.tidy()
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"faulty\.cpp:5:25: error: 'text' used after it was moved")
        self.assertRegex(done.stdout, r"tidy: good\.cpp: ok, ")
        self.assertIn("tidy: files checked: 2; with findings: 1.\n", done.stdout)
        self.assertNotIn("old.cpp", done.stdout)

    def test_counts_what_is_not_committed_and_the_commits_of_a_branch(self):
        self.commit(old=FAULTY)
        self.git("checkout", "--quiet", "-b", "other")
        self.commit(first=GOOD)
        self.commit(second=GOOD)
        self.write(third=GOOD)
        done = self.tidy()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for name in ("first", "second", "third"):
            self.assertIn(f"tidy: {name}.cpp: ok, ", done.stdout)
        self.assertNotIn("old.cpp", done.stdout)

    def test_checks_a_header_through_a_file_that_includes_it(self):
        self.commit(part_h="", other=GOOD, whole='#include "support/part.h"\n')
        self.commit(part_h=FAULTY_HEADER)
        done = self.tidy()
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"support/part\.h:1:29: error: use nullptr")
        self.assertNotIn("other.cpp", done.stdout)

    def test_names_what_it_leaves_out(self):
        self.commit()
        self.commit(a=GOOD, b=GOOD, alone_h=FAULTY_HEADER)
        done = self.tidy("--limit", "1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(
            done.stdout,
            r"not checked, because \S+ compiles no file that is or includes: support/alone\.h\.",
        )
        self.assertRegex(done.stdout, r"not checked, because the limit is 1: [ab]\.cpp\.")
        done = self.tidy("--minutes", "0")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("not checked, because 0 minutes were over: a.cpp, b.cpp.", done.stdout)

    def test_a_clone_without_earlier_commits(self):
        self.commit()
        self.commit(good=GOOD)
        clone = self.root / "build/clone"
        subprocess.run(
            ["git", "clone", "--quiet", "--depth=1", f"file://{self.root}", clone], check=True
        )
        self.root = clone
        (clone / "build/release").mkdir(parents=True)
        self.write()
        done = self.tidy()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("no C++ file changed (this clone has no earlier commit", done.stdout)
        self.write(other=GOOD)
        done = self.tidy()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("tidy: other.cpp: ok, ", done.stdout)
        self.assertNotIn("good.cpp", done.stdout)

    def test_a_repository_without_commits(self):
        self.write(good=GOOD)
        done = self.tidy()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("tidy: good.cpp: ok, ", done.stdout)

    def test_all_files_and_named_files(self):
        self.commit(good=GOOD, faulty=FAULTY)
        self.commit()
        self.assertIn("no C++ file changed since", self.tidy().stdout)
        self.assertIn("tidy: files checked: 2; with findings: 1.\n", self.tidy("all").stdout)
        self.assertEqual(self.tidy(self.root / "good.cpp").returncode, 0)
        done = self.tidy(self.root / "absent.cpp")
        self.assertEqual(done.returncode, 3)
        self.assertIn("there is no file absent.cpp", done.stderr)

    def test_says_what_is_missing(self):
        self.commit()
        self.commit(good=GOOD)
        (self.root / "build/release/compile_commands.json").unlink()
        done = self.tidy()
        self.assertEqual(done.returncode, 3, done.stdout)
        self.assertEqual(
            done.stderr,
            f"tidy: {self.root}/build/release/compile_commands.json is missing: "
            "run scripts/build, which writes it.\n",
        )


if __name__ == "__main__":
    unittest.main()
