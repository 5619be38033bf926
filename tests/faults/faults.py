# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The common part of the fault tests. Each test is `NAME_test.py BUILD-FOLDER [--long]`. It prints what it did and what
# it found. Exit code 0: passed; 1: something is wrong; 77: this machine cannot run a part.

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile

SKIPPED = 77


class Faults:
    """The programs of a build, a folder for a cache, and the results so far."""

    def __init__(self, description):
        parser = argparse.ArgumentParser(description=description)
        parser.add_argument("build", help="a build folder, such as build/release")
        parser.add_argument("--long", action="store_true", help="minutes instead of seconds")
        parser.add_argument("--in-namespace", help=argparse.SUPPRESS)
        self.arguments = parser.parse_args()
        build = os.path.abspath(self.arguments.build)
        self.long = self.arguments.long
        self.worker = os.path.join(build, "tests", "faults", "tesela_cache_worker")
        self.failing_calls = os.path.join(build, "tests", "faults", "libtesela_failing_calls.so")
        self.command = os.path.join(build, "bin", "tesela")
        self.temporary = tempfile.TemporaryDirectory(prefix="tesela-faults-")
        self.cache = os.path.join(self.temporary.name, "cache")
        # The locks of this test are separate from others.
        self.environment = dict(os.environ, XDG_RUNTIME_DIR=self.temporary.name)
        self.failures, self.skipped = 0, []

    def say(self, sentence):
        print(sentence, flush=True)

    def expect(self, condition, sentence):
        if not condition:
            self.failures += 1
        self.say(f"{'ok    ' if condition else 'WRONG '} {sentence}")

    def skip(self, sentence):
        self.skipped.append(sentence)
        self.say(f"SKIPPED {sentence}")

    def work(self, *arguments, folder=None, environment=None, **options):
        """Runs the worker to its end. Gives its lines of output, the last of which has the totals, and its warnings."""
        done = subprocess.run(
            [self.worker, folder or self.cache, *map(str, arguments)],
            env={**self.environment, **(environment or {})},
            capture_output=True, text=True, timeout=1800, **options)
        if done.returncode != 0:
            self.expect(False, f"{arguments}: exit code {done.returncode}: {done.stderr}")
            return [{}], done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()], done.stderr

    def tesela_cache(self, *arguments, folder=None):
        """Runs `tesela cache`. Gives the exit code and the JSON."""
        done = subprocess.run(
            [self.command, "cache", *arguments, "--json", "--cache-folder", folder or self.cache],
            env=self.environment, capture_output=True, text=True, timeout=600)
        return done.returncode, json.loads(done.stdout or "null")

    def expect_whole(self, kernels, folder=None):
        """Checks that every entry verifies, and that there are as many as expected."""
        code, report = self.tesela_cache("verify", folder=folder)
        self.expect(code == 0 and report["kernels"] == kernels and report["damaged"] == [],
                    f"`tesela cache verify`: {report['kernels']} kernels, "
                    f"{len(report['damaged'])} damaged")

    def temporaries(self, folder=None):
        return [name for _, _, names in os.walk(folder or self.cache)
                for name in names if ".kernel." in name]

    def calls_that_fail(self, by):
        """(call, environment) for each system call with which an entry is written."""
        if not os.path.exists(self.failing_calls):
            self.say("a build with sanitizers: their libraries take no other that is preloaded")
            return []
        return [(call, {"LD_PRELOAD": self.failing_calls, "TESELA_FAILING_CALL": call,
                        "TESELA_FAILING_BY": by})
                for call in ["open", "write", "fsync", "rename", "mkdir"]]

    def end(self):
        self.temporary.cleanup()
        if self.failures:
            sys.exit(1)
        sys.exit(SKIPPED if self.skipped else 0)


def in_mount_namespace():
    """Whether mounts are allowed. If so, the script runs again in a namespace, which ends with the process."""
    if "--in-namespace" in sys.argv:
        return True
    allowed = subprocess.run(
        ["unshare", "--mount", "sh", "-c",
         'd=$(mktemp -d) && mount -t tmpfs tmpfs "$d" && umount "$d" && rmdir "$d"'],
        capture_output=True).returncode == 0 if which("unshare") else False
    if allowed:
        os.execvp("unshare", ["unshare", "--mount", sys.executable, *sys.argv, "--in-namespace", "yes"])
    return False


def which(program):
    return any(os.access(os.path.join(folder, program), os.X_OK)
               for folder in os.environ.get("PATH", "").split(os.pathsep))


@contextlib.contextmanager
def mounted(*arguments):
    """Runs `mount ARGUMENTS`. The last argument is the folder."""
    os.makedirs(arguments[-1], exist_ok=True)
    subprocess.run(["mount", *arguments], check=True)
    try:
        yield arguments[-1]
    finally:
        subprocess.run(["umount", arguments[-1]], check=True)
