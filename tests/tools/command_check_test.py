# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# `tesela check` end to end: `command_check_test.py PATH-OF-TESELA [unittest options]`.

from command_case import BAD_INPUT, SMALL, CommandTest, main


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


if __name__ == "__main__":
    main()
