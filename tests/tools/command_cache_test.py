# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# `tesela cache` end to end: `command_cache_test.py PATH-OF-TESELA [unittest options]`.

import json
import os
import re
import time

from command_case import ENVIRONMENT, WRONG_RESULT, CommandTest, main


class Cache(CommandTest):
    QUICK = ["--target", "host", "--repeat", "0", "--no-check", "--heads", "1", "--length", "16"]

    def cache(self, *arguments, **options):
        return json.loads(self.output("cache", *arguments, "--json", **options))

    def fill(self):
        for variant, dim in [("causal", 64), ("sliding_window", 32), ("full", 16)]:
            self.output("run", variant, *self.QUICK, "--head-dim", str(dim), "--dtype", "f32")

    def used(self, variant, days):
        """Makes a kernel look as if it was last used this many days ago."""
        (kernel,) = [kernel for kernel in self.cache("list") if kernel["variant"] == variant]
        seconds = time.time() - days * 24 * 60 * 60
        os.utime(kernel["path"], (seconds, seconds))
        return kernel

    def test_nothing_there(self):
        self.assertIn("0 kernels, 0 B", self.output("cache", "list"))
        self.assertEqual(self.cache("list"), [])
        self.assertEqual(self.cache("stats")["kernels"], 0)
        self.assertEqual(self.cache("verify")["damaged"], [])
        self.assertEqual(self.cache("clear")["removed_kernels"], 0)
        self.assertFalse(os.path.exists(self.path("cache")))

    def test_list(self):
        self.fill()
        self.used("full", 1)
        kernels = self.cache("list")
        self.assertEqual(len(kernels), 3)
        self.assertEqual(kernels[-1]["variant"], "full")
        for kernel in kernels:
            self.assertEqual(kernel["bytes"], os.path.getsize(kernel["path"]))
            self.assertIn(kernel["key"], kernel["path"])
            self.assertEqual((kernel["target"], kernel["dtype"]), ("host", "f32"))
            self.assertIn("block_m", kernel["schedule"])
            self.assertLess(abs(kernel["made"] - time.time()), 1000)
        text = self.output("cache", "list").splitlines()
        self.assertRegex(text[-2], r"^[0-9a-f]{12} .* host +f32 +16/16 +full +block_m")
        self.assertRegex(text[-1], r"^3 kernels, .* KiB, in " + re.escape(self.path("cache")))

    def test_stats(self):
        self.fill()
        stats = self.cache("stats")
        self.assertEqual(stats["bytes"], sum(kernel["bytes"] for kernel in self.cache("list")))
        self.assertEqual(stats["targets"], {"host": {"kernels": 3, "bytes": stats["bytes"]}})
        self.assertIn("3 kernels", self.output("cache", "stats"))

    def test_verify(self):
        self.fill()
        self.assertIn("none is damaged", self.output("cache", "verify"))
        kernel = self.cache("list")[0]
        with open(kernel["path"], "r+b") as file:
            file.seek(-100, os.SEEK_END)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 1]))
        report = self.cache("verify", expect=WRONG_RESULT)
        self.assertEqual(report["kernels"], 3)
        self.assertEqual([damaged["key"] for damaged in report["damaged"]], [kernel["key"]])
        text = self.output("cache", "verify", expect=WRONG_RESULT)
        self.assertIn(kernel["path"], text)
        self.assertIn("1 damaged", text)
        self.fill()  # compiled again and replaced
        self.assertEqual(self.cache("verify")["damaged"], [])

    def test_prune(self):
        self.fill()
        self.used("causal", 1)
        self.used("sliding_window", 20)
        self.used("full", 40)
        self.assertEqual(self.cache("prune", "--older", "30")["removed_kernels"], 1)
        self.assertEqual(self.cache("prune", "--older", "30")["removed_kernels"], 0)
        first = self.cache("list")[0]
        self.assertEqual(self.cache("prune", "--to", "1G")["removed_kernels"], 0)
        self.assertEqual(self.cache("prune", "--to", str(first["bytes"]))["bytes_left"], first["bytes"])
        self.assertEqual([kernel["variant"] for kernel in self.cache("list")], ["causal"])

    def test_clear(self):
        self.fill()
        self.assertIn("3 kernels removed", self.output("cache", "clear"))
        self.assertEqual(self.cache("list"), [])

    def test_what_is_wrong_is_named(self):
        self.assertIn("--older", self.error("cache", "prune"))
        for size in ["much", "-5", "99999999999G"]:
            self.assertIn(f"--to: '{size}' is not a size", self.error("cache", "prune", "--to", size))
        self.assertIn("--older", self.error("cache", "prune", "--older", "-1"))
        file = self.file("file", "")
        for command in ["list", "stats", "verify", "clear"]:
            message = self.error("cache", command, "--cache-folder", file, expect=ENVIRONMENT)
            self.assertIn(file, message)
        for name in ["TESELA_CACHE_DIR", "XDG_CACHE_HOME", "HOME"]:
            self.environment.pop(name, None)
        self.assertIn("TESELA_CACHE_DIR", self.error("cache", "list", expect=ENVIRONMENT))


if __name__ == "__main__":
    main()
