# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# `tesela tune` end to end, on the host: `tune_test.py PATH-OF-TESELA [unittest options]`. Which
# schedule is the fastest is not checked, because it depends on the machine.

import json
import os
import subprocess
import sys
import tempfile
import unittest

TESELA = ""
SHAPE = ["--target", "host", "--threads", "1", "--heads", "2", "--length", "64", "--head-dim", "32",
         "--dtype", "f32"]


class Tune(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.cache = os.path.join(self.folder.name, "cache")

    def tearDown(self):
        self.folder.cleanup()

    def tesela(self, *arguments, code=0, cache=True):
        extra = ["--cache-folder", self.cache] if cache else []
        result = subprocess.run([TESELA, *arguments, *extra], capture_output=True, text=True)
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def tune(self, variant, *arguments):
        """The JSON object of a race of at most two seconds."""
        result = self.tesela("tune", variant, *SHAPE, "--seconds", "2", "--json", *arguments)
        return json.loads(result.stdout)

    def run_json(self, variant, *arguments):
        result = self.tesela("run", variant, *SHAPE, "--repeat", "0", "--json", *arguments)
        return json.loads(result.stdout)["kernel"]

    def test_what_is_found_is_kept_used_and_shown(self):
        tuned = self.tune("causal")
        self.assertGreaterEqual(tuned["timed"], 1)
        self.assertEqual(sum(trial.get("heuristic", False) for trial in tuned["trials"]), 1)
        self.assertIn(tuned["choice"]["schedule"], [trial["schedule"] for trial in tuned["trials"]])
        for trial in tuned["trials"]:
            self.assertTrue("ms" in trial or trial["dropped"], trial)
        self.assertTrue(os.path.exists(tuned["record"]))

        kernel = self.run_json("causal")
        self.assertEqual(kernel["schedule_origin"], "tuned")
        self.assertEqual(kernel["tuned_record"], tuned["record"])
        # Given by --schedule it is the same schedule.
        pinned = self.run_json("causal", "--schedule", tuned["choice"]["schedule"])
        self.assertEqual(pinned["schedule_origin"], "given")
        self.assertEqual(pinned["schedule"], kernel["schedule"])
        off = self.run_json("causal", "--tuning", "off")
        self.assertEqual(off["schedule_origin"], "heuristic")

        shown = json.loads(self.tesela("tune", "causal", *SHAPE, "--show", "--json").stdout)
        self.assertEqual([each["record"] for each in shown["kept"]], [tuned["record"]])
        self.assertEqual(shown["kept"][0]["schedule"], tuned["choice"]["schedule"])
        text = self.tesela("tune", "causal", *SHAPE, "--show").stdout
        self.assertIn(f'--schedule "{tuned["choice"]["schedule"]}"', text)
        # Other variants, types and head dimensions have no choice.
        self.assertIn("Nothing is kept", self.tesela("tune", "full", *SHAPE, "--show").stdout)

    def test_gradients_have_a_schedule_of_their_own(self):
        tuned = self.tune("alibi", "--gradients")
        self.assertGreaterEqual(tuned["timed"], 1)
        for trial in tuned["trials"]:
            self.assertNotIn("differs from that of the heuristic's", trial.get("dropped", ""))
        kernel = self.run_json("alibi", "--gradients")
        self.assertEqual(kernel["schedule_origin"], "tuned")
        self.assertEqual(kernel["tuned_record"], tuned["record"])
        pinned = self.run_json("alibi", "--gradients", "--schedule", tuned["choice"]["schedule"])
        self.assertEqual(pinned["schedule"], kernel["schedule"])
        self.assertEqual(self.run_json("alibi")["schedule_origin"], "heuristic")
        shown = json.loads(self.tesela("tune", "alibi", "--gradients", *SHAPE, "--show", "--json").stdout)
        self.assertEqual([each["record"] for each in shown["kept"]], [tuned["record"]])
        self.assertIn("Nothing is kept", self.tesela("tune", "alibi", *SHAPE, "--show").stdout)

    def test_a_given_schedule_is_not_tuned(self):
        kernel = self.run_json("full", "--tuning", "full", "--schedule", "block_m = 32")
        self.assertEqual(kernel["schedule_origin"], "given")

    def test_text_for_people(self):
        text = self.tesela("tune", "sliding_window", "--param", "window=16", *SHAPE, "--seconds",
                           "1").stdout
        for word in ["heuristic", "choice", "ratio", "tried", "kept"]:
            self.assertIn(word, text)

    def test_captures_are_random_or_a_files(self):
        self.assertGreaterEqual(self.tune("alibi")["timed"], 1)
        self.assertGreaterEqual(self.tune("documents")["timed"], 1)

    def test_given_choices_stay_and_are_not_kept(self):
        tuned = self.tune("causal", "--schedule", "block_m = 32")
        for trial in tuned["trials"]:
            self.assertIn("block_m = 32,", trial["schedule"])
        self.assertEqual(tuned["record"], "")

    def test_tables(self):
        table = os.path.join(self.folder.name, "table.json")
        self.tune("causal", "--table", table)
        self.tune("full", "--table", table)
        with open(table, encoding="utf-8") as file:
            records = json.load(file)["records"]
        self.assertEqual([record["variant"] for record in records], ["causal", "full"])

    def test_a_table_that_is_none_is_told_before_the_race(self):
        table = os.path.join(self.folder.name, "table.json")
        for text in ["", "[]", '{"tesela_tuned": 1000, "records": []}']:
            with open(table, "w", encoding="utf-8") as file:
                file.write(text)
            result = self.tesela("tune", "causal", *SHAPE, "--seconds", "1000", "--exhaustive",
                                 "--table", table, code=2)
            self.assertIn(f"{table}: it", result.stderr)
            self.assertIn("name one, or a new file", result.stderr)
            self.assertEqual(result.stdout, "")
            with open(table, encoding="utf-8") as file:
                self.assertEqual(file.read(), text)

    def test_a_table_that_cannot_be_written_is_told_before_the_race(self):
        table = os.path.join(self.folder.name, "absent", "table.json")
        result = self.tesela("tune", "causal", *SHAPE, "--seconds", "1000", "--exhaustive", "--table", table, code=3)
        self.assertIn(f"{table} cannot be written: No such file or directory", result.stderr)
        self.assertEqual(result.stdout, "")

    def test_bad_usage(self):
        for arguments, words in [
            (["--no-cache", "--table", "x.json"], "leave one of them out"),
            (["--seconds", "0"], "--seconds"),
            (["--kv-heads", "3"], "multiple"),
            (["--schedule", "block_m = 7"], "multiple of 8"),
        ]:
            result = self.tesela("tune", "causal", *SHAPE, *arguments, code=2)
            self.assertIn(words, result.stderr)


if __name__ == "__main__":
    TESELA = os.path.abspath(sys.argv.pop(1))
    unittest.main()
