# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the tests of the whole command share. The command runs on the host."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SUCCESS, WRONG_RESULT, BAD_INPUT, ENVIRONMENT = 0, 1, 2, 3
SMALL = ["--target", "host", "--repeat", "0", "--heads", "2", "--length", "33", "--head-dim", "64"]


class CommandTest(unittest.TestCase):
    tesela = ""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.environment = dict(os.environ, TESELA_CACHE_DIR=self.path("cache"))

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def file(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def call(self, *arguments, expect=SUCCESS, **options):
        options = {"stdout": subprocess.PIPE, "timeout": 300, **options}
        done = subprocess.run(
            [CommandTest.tesela, *arguments], stderr=subprocess.PIPE, env=self.environment, **options
        )
        self.assertEqual(done.returncode, expect, f"{arguments}\n{done.stdout}\n{done.stderr}")
        return done

    def output(self, *arguments, **options):
        return self.call(*arguments, **options).stdout.decode()

    def error(self, *arguments, expect=BAD_INPUT):
        return self.call(*arguments, expect=expect).stderr.decode()

    def run_json(self, *arguments, expect=SUCCESS):
        return json.loads(self.output("run", *arguments, "--json", expect=expect))


def main():
    """Runs the tests of a script that is called as SCRIPT PATH-OF-TESELA [unittest options]."""
    CommandTest.tesela = os.path.abspath(sys.argv.pop(1))
    unittest.main()
