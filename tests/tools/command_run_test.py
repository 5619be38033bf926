# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# `tesela run` end to end: `command_run_test.py PATH-OF-TESELA [unittest options]`.

import os
import re
import shutil

import safetensors_files
from command_case import ENVIRONMENT, ROOT, SMALL, WRONG_RESULT, CommandTest, main


class Run(CommandTest):
    def test_report_for_people(self):
        text = self.output("run", "causal", "--target", "host", "--heads", "2", "--length", "64",
                           "--repeat", "3")
        for label in ["variant ", "device ", "compile ", "check      passed", "time ", "TFLOP/s"]:
            self.assertIn(label, text)

    def test_report_for_scripts(self):
        report = self.run_json("causal", *SMALL, "--seed", "7")
        self.assertEqual(report["variant"], "causal")
        self.assertEqual(report["kernel"]["target"], "host")
        self.assertEqual(report["problem"]["length"], 33)
        self.assertEqual(report["problem"]["seed"], 7)
        self.assertEqual(report["problem"]["kept_pairs"], 2 * 33 * 34 // 2)
        self.assertTrue(report["check"]["passed"])
        self.assertLessEqual(report["check"]["max_error"], report["check"]["tolerance"])
        self.assertLessEqual(report["check"]["row_error"], report["check"]["row_tolerance"])
        self.assertNotIn("time", report)

    def test_verify(self):
        report = self.run_json("sliding_window", *SMALL, "--verify")
        self.assertNotIn("check", report)
        self.assertEqual(report["verified"]["rows"], "66 of 66 rows")
        self.assertGreater(report["verified"]["ms"], 0)
        text = self.output("run", "causal", *SMALL, "--verify")
        self.assertRegex(text, r"check +passed: 66 of 66 rows of the first launch, in .* ms")
        self.assertIn("--no-check", self.error("run", "causal", *SMALL, "--verify", "--no-check"))

    def test_gradients(self):
        for variant, options in [
            ("causal", []), ("softcap", ["--dtype", "f16"]), ("learned_sinks", ["--dtype", "f32"]),
            ("alibi", ["--kv-heads", "1", "--kv-length", "70", "--layout", "bshd", "--head-dim-v", "40"]),
        ]:
            with self.subTest(variant):
                report = self.run_json(variant, *SMALL, "--gradients", *options)
                self.assertEqual(report["pass"], "backward")
                self.assertTrue(report["check"]["passed"])
                for name in "dq", "dk", "dv":
                    check = report["check"][name]
                    self.assertLessEqual(check["max_error"], check["tolerance"])
                    self.assertLessEqual(check["row_error"], check["row_tolerance"])
        text = self.output("run", "causal", *SMALL[2:], "--target", "host", "--gradients",
                           "--repeat", "2", "--schedule", "block_m = 16")
        self.assertRegex(text, r"(?m)^check +passed: largest errors dq \S+, tolerance \S+; dk .*; dv "
                               r".* \(against the interpreter\)$")
        self.assertIn("kernel     gradients for host", text)
        self.assertIn("block_m = 16", text)
        self.assertRegex(text, r"(?m)^speed .*TFLOP/s over the kept pairs")
        self.assertIn("skipped", self.output("run", "causal", *SMALL, "--gradients", "--no-check"))
        self.assertIn("--verify", self.error("run", "causal", *SMALL, "--verify", "--gradients"))

    def test_gradients_that_are_wrong(self):
        """A user's template that forgets the scale."""
        folder = self.path("templates")
        shutil.copytree(os.path.join(ROOT, "templates"), folder)
        path = os.path.join(folder, "backward.mlir")
        with open(path, encoding="utf-8") as file:
            template = file.read()
        head, _, last = template.rpartition("arith.mulf %x, %scale : f32")
        with open(path, "w", encoding="utf-8") as file:
            file.write(head + "arith.addf %x, %x : f32" + last)
        arguments = ["run", "causal", *SMALL, "--gradients", "--no-cache", "--templates", folder]
        message = self.error(*arguments, expect=WRONG_RESULT)
        self.assertRegex(message, r"(?m)^tesela: the gradient dq is wrong: .* b 0, h \d, q \d+")
        self.assertNotIn("dk", message)

    def test_sequences(self):
        """Ragged and in pages, with each kind of positions, whole and in parts."""
        for variant, options in [
            ("causal", ["--ragged"]),
            ("documents_causal", ["--ragged"]),
            ("alibi", ["--page", "16", "--kv-length", "300", "--positions", "given"]),
            ("learned_sinks", ["--ragged", "--page", "3", "--kv-length", "300", "--split"]),
            ("sliding_window", ["--param", "window=40", "--ragged", "--positions", "begin", "--split"]),
            ("causal", ["--page", "64", "--length", "1", "--kv-length", "500", "--split"]),
        ]:
            with self.subTest(variant, options=options):
                report = self.run_json(variant, *SMALL, "--batch", "5", "--kv-heads", "1", *options)
                self.assertTrue(report["check"]["passed"])
        # For full, all pairs of the sequences are kept. With a cache, kept pairs are not counted.
        for kept, options in [(" (100.0 % of all)", ["--ragged"]),
                              ("kept pairs were not counted", ["--page", "16", "--kv-length", "300"])]:
            self.assertIn(kept, self.output("run", "full", *SMALL[4:], "--target", "host", "--repeat", "1",
                                              "--batch", "3", *options))
        for message, options in [
            ("--split, --positions and --cache need sequences", ["--split"]),
            ("--gradients, --verify and --check-reads need dense", ["--ragged", "--gradients"]),
            ("--output needs dense queries", ["--ragged", "--output", self.path("o")]),
            ("has no more queries than keys", ["--page", "16", "--kv-length", "7"]),
        ]:
            self.assertIn(message, self.error("run", "causal", *SMALL, *options))
        self.assertIn("'kept' has the extent Sq, which counts keys with --positions given",
                      self.error("run", "boolean_mask", *SMALL, "--ragged", "--positions", "given",
                                 "--kv-length", "20"))
        # Behind a cache, an extent Sq of a captured tensor has an element for each key.
        for variant in ("boolean_mask", "learned_bias", "speculative_tree"):
            report = self.run_json(variant, *SMALL, "--page", "16", "--kv-length", "300")
            self.assertTrue(report["check"]["passed"])
        # The same where the tensor comes from a file, which then gives the number of keys.
        path = self.path("bias.safetensors")
        halves = b"\x00\x3f" * (2 * 40 * 40)
        safetensors_files.write_safetensors(path, {"bias": ("BF16", [2, 40, 40], halves)})
        report = self.run_json("learned_bias", "--input", path, "--target", "host", "--length", "3",
                               "--head-dim", "32", "--page", "16")
        problem = report["problem"]
        self.assertEqual((problem["heads"], problem["length"], problem["kv_length"]), (2, 3, 40))
        self.assertTrue(report["check"]["passed"])

    def test_hard_inputs(self):
        report = self.run_json("causal", *SMALL, "--inputs", "jumping", "--dtype", "f16")
        self.assertEqual(report["problem"]["inputs"], "jumping")
        self.assertTrue(report["check"]["passed"])

    def test_every_library_variant(self):
        for line in self.output("variants").splitlines():
            with self.subTest(line):
                report = self.run_json(line.split()[0], *SMALL, "--kv-heads", "1", "--kv-length",
                                       "70", "--layout", "bshd", "--dtype", "f16")
                self.assertTrue(report["check"]["passed"])

    def test_the_example_of_the_readme(self):
        path = os.path.join(ROOT, "examples", "sliding_alibi.attn")
        with open(path, encoding="utf-8") as example, open(
            os.path.join(ROOT, "README.md"), encoding="utf-8"
        ) as readme:
            text = readme.read()
            self.assertIn(example.read(), text)
        self.assertTrue(self.run_json(path, *SMALL, "--param", "window=7")["check"]["passed"])
        variants = re.findall(r"^```\n(//.*?)^```", text, re.DOTALL | re.MULTILINE)
        self.assertEqual(len(variants), 1)
        for variant in variants:
            path = self.file("readme.attn", variant)
            self.assertTrue(self.run_json(path, *SMALL)["check"]["passed"])
        library = len(self.output("variants").splitlines())
        self.assertIn(f"[{library} variants](docs/variants.md) in the library", text)

    def test_the_disk_cache_serves_the_second_run(self):
        self.assertEqual(self.run_json("causal", *SMALL)["kernel"]["origin"], "compiled")
        self.assertEqual(self.run_json("causal", *SMALL)["kernel"]["origin"], "disk cache")
        self.assertEqual(self.run_json("causal", *SMALL, "--no-cache")["kernel"]["origin"], "compiled")

    def test_nothing_to_do(self):
        for option in ["--batch", "--length", "--kv-length"]:
            report = self.run_json("causal", "--target", "host", "--repeat", "0", option, "0")
            self.assertTrue(report["check"]["passed"])

    def test_parameters(self):
        variant = self.file("window.attn", "attention window(size: i32, bias: f32 = 0.5) {\n"
                            "  mask  = q >= k && q - k < size\n  score = s + bias\n}\n")
        report = self.run_json(variant, *SMALL, "--param", "size=4", "--param", "bias=-1e-1")
        self.assertEqual(report["problem"]["kept_pairs"], 2 * (1 + 2 + 3 + 4 * 30))
        self.assertIn("no default", self.error("run", variant, *SMALL))
        self.assertIn("no scalar parameter 'sise'; did you mean 'size'?",
                      self.error("run", variant, *SMALL, "--param", "sise=4"))
        self.assertIn("no scalar parameter 'width'; it has: size, bias.",
                      self.error("run", variant, *SMALL, "--param", "width=4"))
        self.assertIn("whole number", self.error("run", variant, *SMALL, "--param", "size=4.5"))
        self.assertIn("2^31", self.error("run", variant, *SMALL, "--param", "size=4294967296"))
        self.assertIn("name=value", self.error("run", variant, *SMALL, "--param", "size"))
        self.assertIn("twice", self.error("run", variant, *SMALL, "--param", "size=1",
                                          "--param", "size=2"))

    def test_constants(self):
        variant = self.file(
            "strided.attn",
            "attention strided(const step: i32, const reach: i32 = 9, bias: f32 = 0.5) {\n"
            "  mask = q >= k && (q - k) % step == 0 && q - k < reach\n  score = s + bias\n}\n",
        )
        for arguments in (["step=2"], ["step=3", "reach=20"], ["step=1", "bias=2"]):
            parameters = [word for pair in arguments for word in ("--param", pair)]
            self.assertIn("passed", self.output("run", variant, *SMALL, *parameters))
        self.assertIn("step=VALUE", self.error("run", variant, *SMALL))
        self.assertIn("whole number", self.error("run", variant, *SMALL, "--param", "step=0.5"))
        self.assertIn("const step: i32, const reach: i32 = 9", self.output("check", variant))
        attn = self.output("compile", variant, "--emit", "attn", "--param", "step=7")
        self.assertIn("arith.constant 7 : i32", attn)
        self.assertNotIn("step", attn)
        self.assertIn("step=VALUE", self.error("compile", variant, "--emit", "attn"))

    def test_reads_outside(self):
        variant = self.file(
            "shifted.attn", "attention shifted(t: f32[Sk]) { score = s + t[k - 1] }\n"
        )
        error = self.error("run", variant, *SMALL, "--check-reads", expect=WRONG_RESULT)
        self.assertIn("'t' is read outside: index -1 of axis 0, whose extent is 33", error)
        self.assertIn("first at b 0, h 0, q 0, k 0; 66 reads", error)
        guarded = self.file(
            "guarded.attn",
            "attention guarded(t: f32[Sk]) { score = k > 0 ? s + t[k - 1] : s }\n",
        )
        self.call("run", guarded, *SMALL, "--check-reads")

    def test_scale(self):
        self.run_json("full", *SMALL, "--scale", "0.5")
        for scale in ["nan", "inf", "0", "-1"]:
            self.assertIn("scale", self.error("run", "full", *SMALL, f"--scale={scale}"))

    def test_what_does_not_fit_into_memory(self):
        message = self.error("run", "full", "--target", "host", "--batch", "2147483647",
                             "--length", "2147483647", expect=ENVIRONMENT)
        self.assertIn("memory", message)
        # Each tensor fits into memory, but all of them and the reference do not.
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        rows = memory // 2 // (8 * 128 * 2)
        message = self.error("run", "full", "--target", "host", "--length", str(rows),
                             "--kv-length", "1", expect=ENVIRONMENT)
        self.assertIn("--no-check", message)

    def test_a_cache_that_cannot_be_written_is_a_note(self):
        done = self.call("run", "full", *SMALL, "--cache-folder", "/dev/null/cache")
        self.assertIn("note", done.stderr.decode())
        self.assertIn("--cache-folder", done.stderr.decode())


if __name__ == "__main__":
    main()
