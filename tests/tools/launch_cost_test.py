# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# launch_cost_test.py PROGRAM FOLDER: tesela_launch_cost on the stub of the driver in FOLDER. Checks which lines there
# are and the driver's calls that they count, not how long anything takes.

import os
import re
import subprocess
import sys
import unittest

VARIANTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "templates", "variants")
STUB = os.path.abspath(sys.argv.pop())
PROGRAM = os.path.abspath(sys.argv.pop())
MICROSECONDS = r" +-?[0-9]+\.[0-9]{3}"
# The kernel, its driver calls (kernels, tensor maps), then the medians, the quartiles and Tesela's own part.
LAUNCH = re.compile(rf"(\w+ sm_\d+) +(\d+) +(\d+){MICROSECONDS * 4} \[{MICROSECONDS[2:]},{MICROSECONDS}\]{MICROSECONDS}")
UNCHANGED = re.compile(rf" +(\d+) {MICROSECONDS}   captures unchanged")
TENSOR_MAP = re.compile(rf" +a tensor map:{MICROSECONDS}")


class LaunchCost(unittest.TestCase):
    def test_lines(self):
        files = [os.path.join(VARIANTS, name + ".attn") for name in ("causal", "documents")]
        done = subprocess.run(
            [PROGRAM, "--runs", "3", "--launches", "2", *files],
            env=dict(os.environ, LD_LIBRARY_PATH=STUB),
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        title, header, *lines = done.stdout.splitlines()
        self.assertTrue(title.endswith("medians of 3 runs of 2"), title)
        self.assertEqual(header.split()[:3], ["variant", "kernels", "maps"])
        found = []
        for line in lines:
            if launch := LAUNCH.fullmatch(line):
                found.append((launch[1], int(launch[2]), int(launch[3])))
            elif unchanged := UNCHANGED.fullmatch(line):
                found.append(("unchanged", int(unchanged[1])))
            else:
                self.assertRegex(line, TENSOR_MAP)
                found.append("a tensor map")
        expected = [
            ("causal sm_90", 1, 4),  # q, k, v and o
            ("causal sm_80", 1, 0),
            "a tensor map",
            ("documents sm_90", 3, 4),  # two levels of summaries, then attention
            ("unchanged", 1),
            ("documents sm_80", 3, 0),
            ("unchanged", 1),
            "a tensor map",
        ]
        self.assertEqual(found, expected, done.stdout)


if __name__ == "__main__":
    unittest.main()
