# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The command end to end, on the host: `command_test.py PATH-OF-TESELA [unittest options]`.

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

TESELA = ""
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SUCCESS, WRONG_RESULT, BAD_INPUT, ENVIRONMENT = 0, 1, 2, 3
SMALL = ["--target", "host", "--repeat", "0", "--heads", "2", "--length", "33", "--head-dim", "64"]


class CommandTest(unittest.TestCase):
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
            [TESELA, *arguments], stderr=subprocess.PIPE, env=self.environment, **options
        )
        self.assertEqual(done.returncode, expect, f"{arguments}\n{done.stdout}\n{done.stderr}")
        return done

    def output(self, *arguments, **options):
        return self.call(*arguments, **options).stdout.decode()

    def error(self, *arguments, expect=BAD_INPUT):
        return self.call(*arguments, expect=expect).stderr.decode()

    def run_json(self, *arguments, expect=SUCCESS):
        return json.loads(self.output("run", *arguments, "--json", expect=expect))


class Usage(CommandTest):
    def test_version(self):
        from_git = os.path.exists(os.path.join(ROOT, ".git"))
        commit = r" \(commit [0-9a-f]{12,}(-dirty)?\)" if from_git else ""
        self.assertRegex(self.output("--version"), rf"^tesela \d+\.\d+\.\d+{commit}\n$")

    def test_help_teaches(self):
        self.assertIn("Exit codes", self.output("--help"))
        self.assertIn("safetensors", self.output("run", "--help"))
        self.assertIn("cubin", self.output("compile", "--help"))
        self.assertIn("partial", self.output("explain", "--help"))

    def test_what_is_wrong_is_named(self):
        self.call(expect=BAD_INPUT)
        for arguments, sentence in [
            (["run", "causal", "--lenght", "3"],
             "tesela run has no option '--lenght'; did you mean '--length'? Try tesela run --help."),
            (["run", "causal", "--headdim=64"],
             "tesela run has no option '--headdim'; did you mean '--head-dim'?"),
            # Not "--emit is required", which the user believes to have given.
            (["compile", "causal", "--emti", "pipe"],
             "tesela compile has no option '--emti'; did you mean '--emit'?"),
            (["run", "causal", "--quantise", "3"],
             "tesela run has no option '--quantise'. Try tesela run --help."),
            (["--verson"], "tesela has no option '--verson'; did you mean '--version'?"),
            (["cache", "prune", "--odler", "3"],
             "tesela cache prune has no option '--odler'; did you mean '--older'?"),
            (["rum", "causal"], "tesela has no command 'rum'; did you mean 'run'?"),
            (["documents"], "tesela has no command 'documents'; it has run, compile, explain,"),
            (["cache", "lst"], "tesela cache has no command 'lst'; did you mean 'list'?"),
            (["cache"], "tesela cache needs a command: list, stats, verify, prune, clear."),
            (["run", "causal", "full"], "tesela run does not take the argument 'full'."),
            (["compile", "causal"], "--emit is required. Try tesela compile --help."),
            (["run", "causal", "--", "--foo"],
             "tesela run does not take the argument '--foo' after '--': give options and commands "
             "before '--'. Try tesela run --help."),
            (["compile", "--", "causal", "--emit", "tile"],
             "tesela compile does not take the argument '--emit' after '--'"),
            # The misspelt option is the cause, whatever follows "--".
            (["run", "causal", "--lenght", "--", "3"],
             "tesela run has no option '--lenght'; did you mean '--length'?"),
        ]:
            with self.subTest(arguments):
                self.assertIn("tesela: error: " + sentence, self.error(*arguments))
        self.assertIn("sm_NN", self.error("run", "causal", "--target", "gpu"))
        self.assertIn("--length", self.error("run", "causal", "--length", "-1"))
        self.assertIn("bf16", self.error("run", "causal", "--dtype", "f64"))
        self.assertIn("jumping", self.error("run", "causal", "--inputs", "hard"))
        self.assertIn("not a multiple", self.error("run", "causal", "--heads", "3", "--kv-heads", "2"))
        self.assertIn("did you mean 'causal'?", self.error("run", "causl"))
        self.assertNotIn("did you mean", self.error("run", "nothing_of_the_kind"))
        self.assertIn("'0' is not a head dimension: give a multiple of 8 from 8 to 576",
                      self.error("run", "causal", "--head-dim", "0"))
        for heads in ["--heads", "--kv-heads"]:
            self.assertIn(f"{heads} 0: at least 1", self.error("run", "causal", heads, "0"))
        self.assertIn(" tune,", self.error())

    def test_values_are_named_with_their_limits(self):
        lengths = "give a whole number from 0 to 2147483647"
        for command, option, value, sentence in [
            ("run", "--length", "1k", f"'1k' is not a whole number: {lengths}, in digits only."),
            ("run", "--length", "1.5", f"'1.5' is not a whole number: {lengths}, in digits only."),
            ("run", "--length", "-1", f"'-1' is too small: {lengths}."),
            ("run", "--length", "2147483648", f"'2147483648' is too large: {lengths}."),
            ("run", "--length", "9" * 30, f"is too large: {lengths}."),
            ("run", "--length", "-" + "9" * 30, f"is too small: {lengths}."),
            ("run", "--length", "", f"the value is empty: {lengths}."),
            ("run", "--seed", "now", "give a whole number from 0 to 18446744073709551615"),
            ("run", "--seed", "18446744073709551616", "is too large"),
            ("run", "--threads", "4097", "too large: give a whole number from 0 to 4096."),
            ("run", "--page", "0", "too small: give a whole number from 1 to 1048576."),
            ("run", "--dropout", "2", "'2' is too large: give a number from 0 to 1."),
            ("run", "--dropout", "nan", "'nan' is not a number: give a number from 0 to 1."),
            ("run", "--scale", "x", "'x' is not a number: give a number, such as 0.125."),
            ("tune", "--seconds", "0", "'0' is too small: give a number from 0.1 to 1000000."),
            ("run", "--dtype", "fp16",
             "'fp16' is not a type; did you mean 'f16'? Give bf16, f16 or f32."),
            ("run", "--dtype", "bfloat16", "did you mean 'bf16'?"),
            ("run", "--dtype", "float", "did you mean 'f32'?"),
            ("run", "--dtype", "i8", "'i8' is not a type: give bf16, f16 or f32."),
            ("run", "--layout", "bsdh", "did you mean 'bshd'? Give bhsd or bshd."),
            ("run", "--values", "rows", "'rows' is not a source of values: give keys."),
            ("compile", "--emit", "ptxx", "'ptxx' is not a stage; did you mean 'ptx'? Give attn,"),
            ("run", "--templates", "/nowhere", "'/nowhere' is not a folder: give a folder"),
        ]:
            with self.subTest(option, value=value):
                said = self.error(command, "causal", option, value)
                self.assertIn(f"tesela: error: {option}: ", said)
                self.assertIn(sentence, said)

    def test_numbers_up_to_their_limits_are_read(self):
        for option, value in [("--seed", str(2**64 - 1)), ("--dropout", "1"), ("--threads", "4096"),
                              ("--length", "2147483647")]:
            with self.subTest(option):  # the last option is refused
                said = self.error("run", "causal", option, value, "--dtype", "x")
                self.assertIn("--dtype: 'x'", said)

    def test_options_without_a_value(self):
        for command, option, sentence in [
            ("run", "--length", "give a whole number from 0 to 2147483647."),
            ("run", "--head-dim", "give a multiple of 8 from 8 to 576."),
            ("run", "--dtype", "give bf16, f16 or f32."),
            ("run", "--target", "give auto, host, or sm_NN such as sm_80."),
            ("run", "--output", "give a path."),
            ("run", "--param", "write --param NAME=VALUE."),
            ("explain", "--svg", "give a path."),
        ]:
            with self.subTest(option):
                self.assertIn(f"tesela: error: {option} has no value: {sentence} "
                              f"Try tesela {command} --help.",
                              self.error(command, "causal", option))

    def test_paths_that_are_empty(self):
        here = ["full", "--target", "host"]
        for command, option in [("run", "--input"), ("run", "--output"), ("export", "--output"),
                                ("explain", "--svg"), ("tune", "--table")]:
            with self.subTest(command, option=option):
                self.assertIn(f"{option}: the path is empty",
                              self.error(command, *here, option, ""))

    def test_the_last_of_two_counts(self):
        report = self.run_json("full", *SMALL, "--length", "5")
        self.assertEqual(report["problem"]["length"], 5)

    def test_standard_output_that_is_full(self):
        with open("/dev/full", "wb") as full:
            self.call("devices", expect=ENVIRONMENT, stdout=full)
            # More text than stdio's buffer holds, so that printing fails, not flushing.
            arguments = ["compile", "causal", "--target", "sm_80", "--emit", "ptx"]
            self.assertGreater(len(self.output(*arguments)), 1 << 16)
            done = self.call(*arguments, expect=ENVIRONMENT, stdout=full)
            self.assertIn("No space left on device", done.stderr.decode())


class Devices(CommandTest):
    def test_the_host_is_always_there(self):
        self.assertIn("host", self.output("devices"))
        devices = json.loads(self.output("devices", "--json"))
        self.assertEqual(devices[0]["kind"], "host")
        self.assertGreater(devices[0]["processors"], 0)
        self.assertGreater(devices[0]["memory_bytes"], 0)

    def test_what_assembles_is_named(self):
        version = "release 99.1, V99.1.5"
        program = self.file(
            "ptxas", f"#!/bin/sh\necho 'Cuda compilation tools, {version}'\necho 'Build of_a_test'\n"
        )
        os.chmod(program, 0o755)
        self.environment["PATH"] = os.path.dirname(program) + ":" + self.environment["PATH"]
        line = self.output("devices").splitlines()[-1]
        self.assertIn(f"assembled by {program} ({version}, Build of_a_test)", line)
        self.assertIn("the driver would", line)
        self.file("ptxas", "#!/bin/sh\n")
        self.assertIn("does not tell its version", self.output("devices").splitlines()[-1])
        self.environment["PATH"] = "/nowhere"
        self.environment["CUDA_HOME"] = "/nowhere"
        line = self.output("devices").splitlines()[-1]
        if "assembled by /usr/local/cuda" not in line:
            self.assertIn("assembled by the driver: no ptxas was found", line)
            self.assertIn("nvidia-cuda-nvcc", line)

    def test_a_gpu_that_is_not_there(self):
        self.environment["CUDA_VISIBLE_DEVICES"] = ""
        message = self.error("run", "causal", "--target", "sm_80", expect=ENVIRONMENT)
        self.assertIn("tesela: error: ", message)
        self.assertIn("--target host", message)
        # An unknown target is an error of the user, not of the machine.
        for command in ["run", "tune"]:
            self.assertIn("'sm_75' is not known", self.error(command, "causal", "--target", "sm_75"))
        # auto takes the host.
        report = self.run_json("causal", *SMALL[2:])
        self.assertEqual(report["device"]["target"], "host")


class Check(CommandTest):
    def test_library(self):
        listed = self.output("variants").splitlines()
        names = [line.split()[0] for line in listed]
        for name in ["alibi", "causal", "full", "prefix_lm", "sliding_window", "softcap"]:
            self.assertIn(name, names)
        self.assertEqual(self.output("check", *names).count("no errors"), len(names))

    def test_diagnostics_have_a_place_and_a_caret(self):
        bad = self.file("bad.attn", "attention bad() {\n  mask = q >= kk\n  score = s + zz\n}\n")
        good = self.file("good.attn", "attention good() {\n  mask = q >= k\n}\n")
        done = self.call("check", bad, good, expect=BAD_INPUT)
        self.assertIn("good.attn: good(): no errors", done.stdout.decode())
        text = done.stderr.decode()
        self.assertIn("bad.attn:2:15: error:", text)
        self.assertIn("bad.attn:3:15: error:", text)
        self.assertIn("^", text)
        self.assertIn("bad.attn:2:15", self.error("run", bad, *SMALL))
        self.assertIn("bad.attn:2:15", self.error("compile", bad, "--target", "host", "--emit", "attn"))

    def test_warnings_are_shown(self):
        text = "attention idle(a: f32 = 0.1) {\n  mask = q >= k\n}\n"
        idle = self.file("idle.attn", text)
        for arguments in (["check", idle], ["run", idle, *SMALL]):
            self.assertIn("idle.attn:1:16: warning:", self.call(*arguments).stderr.decode())
        self.assertIn("a: f32 = 0.1)", self.output("check", idle))

    def test_standard_input(self):
        text = b"attention piped() {\n  mask = q >= k\n}\n"
        self.assertIn("piped()", self.output("check", "-", input=text))

    def test_files_that_are_no_variants(self):
        self.assertIn("is a folder", self.error("check", self.folder.name))
        self.error("check", self.file("empty.attn", ""))
        self.assertIn("1048576", self.error("check", self.file("large.attn", " " * (1 << 21))))


class Compile(CommandTest):
    STAGES = [
        ("host", "attn", "attn.variant"),
        ("host", "tile", "tile."),
        ("host", "llvm", "define "),
        ("sm_80", "attn", "attn.variant"),
        ("sm_80", "tile", "tile."),
        ("sm_80", "pipe", "pipe."),
        ("sm_80", "llvm", "define "),
        ("sm_80", "ptx", ".target sm_80"),
        ("sm_90", "pipe", "pipe.roles"),
        ("sm_90", "ptx", ".target sm_90a"),
    ]

    def test_each_stage_of_each_target(self):
        for target, stage, expected in self.STAGES:
            with self.subTest(target=target, stage=stage):
                text = self.output("compile", "causal", "--target", target, "--emit", stage)
                self.assertIn(expected, text)

    def test_object_file(self):
        path = self.path("causal.o")
        self.call("compile", "causal", "--target", "host", "--emit", "object", "-o", path)
        with open(path, "rb") as file:
            self.assertEqual(file.read(4), b"\x7fELF")

    def test_cubin_or_a_sentence(self):
        arguments = ["compile", "causal", "--target", "sm_80", "--emit", "cubin"]
        done = subprocess.run([TESELA, *arguments], capture_output=True, env=self.environment)
        if done.returncode == SUCCESS:
            self.assertEqual(done.stdout[:4], b"\x7fELF")
        else:
            self.assertEqual(done.returncode, ENVIRONMENT, done.stderr)
            self.assertIn(b"ptxas", done.stderr)

    def test_unequal_head_dimensions(self):
        for target, stage in [("host", "llvm"), ("sm_80", "ptx")]:
            for qk, v in [("64", "128"), ("128", "64")]:
                with self.subTest(target=target, qk=qk):
                    self.call("compile", "causal", "--target", target, "--emit", stage,
                              "--head-dim", qk, "--head-dim-v", v)

    def test_what_cannot_be_compiled(self):
        host = ["compile", "causal", "--target", "host", "--emit"]
        self.assertIn("GPU target", self.error(*host, "ptx"))
        self.assertIn("ptx or cubin",
                      self.error("compile", "causal", "--target", "sm_80", "--emit", "object"))
        self.assertIn("sm_10", self.error("compile", "causal", "--target", "sm_10", "--emit", "ptx"))
        self.assertIn("f32", self.error("compile", "causal", "--target", "sm_80", "--dtype", "f32",
                                        "--emit", "ptx"))
        self.assertIn("7", self.error(*host, "llvm", "--head-dim", "7"))
        self.assertIn("cannot be written",
                      self.error(*host, "llvm", "-o", "/dev/null/x", expect=ENVIRONMENT))

    def test_parameters_that_are_not_compiled_in(self):
        compile = ["compile", "--target", "host", "--emit", "attn"]
        folder = self.path("bundle")
        for command in (compile, ["export", "--target", "host", "-o", folder], ["tune", "--show"]):
            message = self.error(*command, "sliding_window", "--param", "window=3")
            self.assertIn("'window' of sliding_window is an argument of the launch and not compiled "
                          "in: leave --param out, or declare it `const window: i32`.", message)
        self.assertFalse(os.path.exists(folder))
        self.assertIn("'slope' of alibi is an argument",
                      self.error(*compile, "alibi", "--param", "slope=3"))
        self.assertIn("has no const parameter 'width'",
                      self.error(*compile, "sliding_window", "--param", "width=3"))

    def test_templates_of_ones_own(self):
        with open(os.path.join(ROOT, "templates", "forward.mlir"), encoding="utf-8") as file:
            template = file.read()
        arguments = ["compile", "full", "--target", "host", "--emit", "tile", "--templates",
                     self.folder.name]
        self.error(*arguments, expect=ENVIRONMENT)
        path = self.file("forward.mlir", template)
        self.assertEqual(self.output(*arguments), self.output(*arguments[:-2]))
        for damaged in [template[:200], template.replace("tile.dot", "tile.dott"),
                        template + template, "// no kernel\n", "module {}\n"]:
            with self.subTest(damaged[-40:]):
                self.file("forward.mlir", damaged)
                self.assertIn(path, self.error(*arguments))

    def test_parameters_beyond_a_gpus_arguments(self):
        names = [f"p{i}" for i in range(1100)]
        many = self.file("many.attn", f"attention many({', '.join(f'{p}: i32' for p in names)}) {{\n"
                         f"  mask = k < {' + '.join(names)}\n}}\n")
        self.assertIn("4096", self.error("compile", many, "--target", "sm_80", "--emit", "ptx"))


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
        self.assertIn("has the extent Sq", self.error("run", "boolean_mask", *SMALL, "--page", "16",
                                                      "--kv-length", "300"))

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
    TESELA = os.path.abspath(sys.argv.pop(1))
    unittest.main()
