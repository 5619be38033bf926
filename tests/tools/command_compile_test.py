# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# `tesela compile` end to end: `command_compile_test.py PATH-OF-TESELA [unittest options]`.

import os
import subprocess

from command_case import ENVIRONMENT, ROOT, SUCCESS, CommandTest, main


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
        done = subprocess.run([self.tesela, *arguments], capture_output=True, env=self.environment)
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


if __name__ == "__main__":
    main()
