# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The options and messages of all subcommands: `command_usage_test.py PATH-OF-TESELA [unittest options]`.

import os

from command_case import BAD_INPUT, ENVIRONMENT, ROOT, SMALL, CommandTest, main


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


if __name__ == "__main__":
    main()
