# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Reading tensors from files and writing them, on the host: `files_test.py PATH-OF-TESELA [unittest options]`.

import json
import math
import os
import random
import resource
import signal
import stat
import struct
import tempfile

import command_case
import safetensors_files


def to_bshd(values, heads, length, dim):
    """[1, H, S, D] as [1, S, H, D]."""
    return [
        values[(h * length + s) * dim + d]
        for s in range(length)
        for h in range(heads)
        for d in range(dim)
    ]


def attention(q, k, v, heads, kv_heads, queries, keys, dim, score):
    """Softmax attention in double; returns o [H, Sq, D] and lse [H, Sq]. `score(s, h, q, k)` gives None if the key
    is masked."""
    o, lse = [], []
    for h in range(heads):
        g = h // (heads // kv_heads)
        for i in range(queries):
            scores = {}
            for j in range(keys):
                s = sum(
                    q[(h * queries + i) * dim + d] * k[(g * keys + j) * dim + d] for d in range(dim)
                ) / math.sqrt(dim)
                kept = score(s, h, i, j)
                if kept is not None:
                    scores[j] = kept
            total = sum(math.exp(s) for s in scores.values())
            lse.append(math.log(total) if scores else -math.inf)
            for d in range(dim):
                o.append(
                    sum(math.exp(s) / total * v[(g * keys + j) * dim + d] for j, s in scores.items())
                )
    return o, lse


class Files(command_case.CommandTest):
    HEADS, KV_HEADS, QUERIES, KEYS, DIM = 2, 1, 5, 7, 64

    def setUp(self):
        super().setUp()
        numbers = random.Random(1)
        def normal(*extents):
            return [numbers.gauss(0, 1) for _ in range(math.prod(extents))]
        # Rounded to f32, because the kernel sees these values.
        def rounded(values):
            return list(struct.unpack(f"<{len(values)}f", safetensors_files.floats(values)))
        self.q = rounded(normal(self.HEADS, self.QUERIES, self.DIM))
        self.k = rounded(normal(self.KV_HEADS, self.KEYS, self.DIM))
        self.v = rounded(normal(self.KV_HEADS, self.KEYS, self.DIM))
        self.slope = rounded(normal(self.HEADS))
        self.variant = self.file(
            "bias.attn",
            "attention bias(slope: f32[H], skip: i32[Sk]) {\n"
            "  mask  = skip[k] == 0 && k <= q + 2\n  score = s + slope[h] * (k - q)\n}\n")
        self.skip = [0, 1, 0, 0, 0, 1, 0]

    def tensors(self, bshd=False):
        order = (lambda x, h, s: to_bshd(x, h, s, self.DIM)) if bshd else (lambda x, h, s: x)
        shape = (lambda h, s: [1, s, h, self.DIM]) if bshd else (lambda h, s: [1, h, s, self.DIM])
        return {
            "q": ("F32", shape(self.HEADS, self.QUERIES),
                  safetensors_files.floats(order(self.q, self.HEADS, self.QUERIES))),
            "k": ("F32", shape(self.KV_HEADS, self.KEYS),
                  safetensors_files.floats(order(self.k, self.KV_HEADS, self.KEYS))),
            "v": ("F32", shape(self.KV_HEADS, self.KEYS),
                  safetensors_files.floats(order(self.v, self.KV_HEADS, self.KEYS))),
            "slope": ("F32", [self.HEADS], safetensors_files.floats(self.slope)),
            "skip": ("I32", [self.KEYS], struct.pack(f"<{self.KEYS}i", *self.skip)),
        }

    def expected(self):
        def score(s, h, q, k):
            return s + self.slope[h] * (k - q) if self.skip[k] == 0 and k <= q + 2 else None
        return attention(self.q, self.k, self.v, self.HEADS, self.KV_HEADS, self.QUERIES, self.KEYS,
                         self.DIM, score)

    def run_files(self, tensors, *options, expect=command_case.SUCCESS):
        safetensors_files.write_safetensors(self.path("in.safetensors"), tensors)
        return self.call("run", self.variant, "--target", "host", "--repeat", "0", "--input",
                         self.path("in.safetensors"), "--output", self.path("out.safetensors"),
                         *options, expect=expect)

    def assert_close(self, content, expected):
        values = struct.unpack(f"<{len(content) // 4}f", content)
        self.assertEqual(len(values), len(expected))
        for value, wanted in zip(values, expected):
            self.assertAlmostEqual(value, wanted, delta=1e-4)

    def test_results_of_real_tensors(self):
        o, lse = self.expected()
        self.run_files(self.tensors())
        written = safetensors_files.read_safetensors(self.path("out.safetensors"))
        self.assertEqual(written["o"][:2], ("F32", [1, self.HEADS, self.QUERIES, self.DIM]))
        self.assertEqual(written["lse"][:2], ("F32", [1, self.HEADS, self.QUERIES]))
        self.assert_close(written["o"][2], o)
        self.assert_close(written["lse"][2], lse)

    def test_gradients_of_real_tensors(self):
        """dq, dk and dv against finite differences of a loss; dlse is one of the tensors."""
        rows = self.HEADS * self.QUERIES
        numbers = random.Random(2)
        weights = [numbers.choice([-1.0, -0.5, 0.5, 1.0]) for _ in range(rows * self.DIM)]
        of_lse = [numbers.choice([-2.0, 1.0, 3.0]) for _ in range(rows)]

        def loss():
            o, lse = self.expected()
            return (sum(a * b for a, b in zip(o, weights)) +
                    sum(a * b for a, b in zip(lse, of_lse)))

        tensors = self.tensors()
        tensors["do"] = ("F32", [1, self.HEADS, self.QUERIES, self.DIM], safetensors_files.floats(weights))
        tensors["dlse"] = ("F32", [1, self.HEADS, self.QUERIES], safetensors_files.floats(of_lse))
        self.run_files(tensors, "--gradients")
        results = safetensors_files.read_safetensors(self.path("out.safetensors"))
        self.assertEqual(set(results), {"o", "lse", "do", "dq", "dk", "dv"})
        for name, values in ("dq", self.q), ("dk", self.k), ("dv", self.v):
            content = results[name][2]
            actual = struct.unpack(f"<{len(content) // 4}f", content)
            self.assertEqual(len(actual), len(values))
            for index in range(0, len(values), len(values) // 8 + 1):
                known, step = values[index], 1e-4
                values[index] = known + step
                above = loss()
                values[index] = known - step
                slope = (above - loss()) / (2 * step)
                values[index] = known
                self.assertAlmostEqual(actual[index], slope, delta=1e-3, msg=f"{name} {index}")
        tensors["dlse"] = ("F32", [1, self.HEADS, 3], bytes(24))
        message = self.run_files(tensors, "--gradients", expect=command_case.BAD_INPUT).stderr.decode()
        self.assertIn("'dlse' is f32[1, 2, 3], it must be f32[1, 2, 5], as lse is", message)

    def test_captures_of_small_types(self):
        """A mask of bytes, and biases of bf16 and f16, from a file."""
        generator = random.Random(5)
        heads, length, dim = 2, 9, 64
        q, k, v = ([generator.gauss(0, 1) for _ in range(heads * length * dim)] for _ in range(3))
        kept = [generator.choice((0, 0, 1, 1)) for _ in range(length * length)]
        bias = [generator.choice((-0.5, 0.25, 1.0)) for _ in range(heads * length)]
        half = [generator.choice((-0.5, 0.25, 1.0)) for _ in range(length)]
        shape = [1, heads, length, dim]
        tensors = {name: ("F32", shape, safetensors_files.floats(x)) for name, x in (("q", q), ("k", k), ("v", v))}
        tensors["kept"] = ("BOOL", [length, length], bytes(kept))
        tensors["bias"] = (
            "BF16", [heads, length], b"".join(struct.pack("<f", x)[2:] for x in bias)
        )
        tensors["half"] = ("F16", [length], struct.pack(f"<{length}e", *half))
        safetensors_files.write_safetensors(self.path("in.safetensors"), tensors)
        variant = self.file(
            "kept.attn",
            "attention kept(kept: bool[Sq, Sk], bias: bf16[H, Sk], half: f16[Sq]) {\n"
            "  mask = kept[q, k]\n  score = s + bias[h, k] * half[q]\n}\n",
        )
        self.call(
            "run", variant, "--target", "host", "--repeat", "0",
            "--input", self.path("in.safetensors"), "--output", self.path("out.safetensors"),
        )
        result = safetensors_files.read_safetensors(self.path("out.safetensors"))
        o, lse = attention(
            q, k, v, heads, heads, length, length, dim,
            lambda s, h, i, j: s + bias[h * length + j] * half[i] if kept[i * length + j] else None,
        )
        for name, expected in (("o", o), ("lse", lse)):
            values = struct.unpack(f"<{len(expected)}f", result[name][2])
            for x, y in zip(values, expected):
                self.assertTrue(x == y or abs(x - y) < 1e-4, f"{name}: {x}, not {y}")

    def test_the_other_layout(self):
        o, lse = self.expected()
        self.run_files(self.tensors(bshd=True), "--layout", "bshd")
        written = safetensors_files.read_safetensors(self.path("out.safetensors"))
        self.assertEqual(written["o"][1], [1, self.QUERIES, self.HEADS, self.DIM])
        self.assert_close(written["o"][2], to_bshd(o, self.HEADS, self.QUERIES, self.DIM))
        self.assert_close(written["lse"][2], lse)

    def test_nans_in_the_data(self):
        """A NaN in q makes a row NaN, which is right. With a NaN in v nothing can be checked."""
        tensors = self.tensors()
        tensors["q"] = ("F32", tensors["q"][1], safetensors_files.floats([math.nan] + self.q[1:]))
        done = self.run_files(tensors, "--json")
        self.assertIn("1 of 10 rows are NaN, as they must be", done.stderr.decode())
        check = json.loads(done.stdout)["check"]
        self.assertEqual((check["passed"], check["nan_rows"], check["nan_count"]), (True, 1, 0))
        tensors = self.tensors()
        tensors["v"] = ("F32", tensors["v"][1], safetensors_files.floats([math.nan] + self.v[1:]))
        done = self.run_files(tensors, expect=command_case.WRONG_RESULT)
        self.assertIn("the result cannot be checked: the reference is nan at b 0, h 0, q 0, d 0",
                      done.stderr.decode())

    def test_tensors_without_a_use_are_named(self):
        tensors = self.tensors()
        tensors["d0"] = tensors["q"]
        done = self.run_files(tensors)
        self.assertIn("has tensors that this run does not use: d0.", done.stderr.decode())
        self.assertNotIn("does not use", self.run_files(self.tensors()).stderr.decode())

    def refused(self, tensors, *options):
        return self.run_files(tensors, *options, expect=command_case.BAD_INPUT).stderr.decode()

    def test_inputs_that_do_not_fit(self):
        def changed(name, value):
            tensors = self.tensors()
            if value is None:
                del tensors[name]
            else:
                tensors[name] = value
            return self.refused(tensors)
        self.assertIn("no tensor 'v'", changed("v", None))
        self.assertIn("captures 'slope'", changed("slope", None))
        self.assertIn("slope", changed("slope", ("F32", [3], bytes(12))))
        self.assertIn("slope", changed("slope", ("I32", [2], bytes(8))))
        self.assertIn("[B, H, S, D]", changed("q", ("F32", [5, 128], bytes(5 * 128 * 4))))
        self.assertIn("all bf16", changed("q", ("F16", [1, 2, 5, 64], bytes(2 * 5 * 64 * 2))))
        self.assertIn("must agree", changed("v", ("F32", [1, 1, 6, 64], bytes(6 * 64 * 4))))
        self.assertIn("F64", changed("q", ("F64", [1, 2, 5, 64], bytes(2 * 5 * 64 * 8))))
        self.assertIn("--param", self.refused(self.tensors(), "--param", "slope=3"))

    def test_options_beside_a_file(self):
        self.run_files(self.tensors(), "--length", str(self.QUERIES))
        self.assertIn("leave --length out", self.refused(self.tensors(), "--length", "6"))
        self.assertIn("leave --dtype out", self.refused(self.tensors(), "--dtype", "bf16"))
        self.assertIn("nothing is random", self.refused(self.tensors(), "--seed", "1"))
        self.assertIn("nothing is random", self.refused(self.tensors(), "--inputs", "far"))

    def test_a_file_of_captures_alone(self):
        captures = {name: self.tensors()[name] for name in ("slope", "skip")}
        options = ["--length", "33", "--head-dim", "64", "--inputs", "wide", "--json"]
        done = self.run_files(captures, *options)
        self.assertIn("has no q, k and v: they are random", done.stderr.decode())
        problem = json.loads(done.stdout)["problem"]
        self.assertEqual((problem["heads"], problem["length"], problem["kv_length"]), (2, 33, 7))
        self.assertEqual((problem["seed"], problem["inputs"]), (0, "wide"))
        # Of the 7 keys 5 count, and query q sees those up to q + 2.
        self.assertEqual(problem["kept_pairs"], 2 * (2 + 3 + 4 + 4 + 29 * 5))
        self.assertIn("leave --heads out", self.refused(captures, "--heads", "4"))
        # A file with none of the variant's names must be refused.
        safetensors_files.write_safetensors(self.path("in.safetensors"), captures)
        error = self.error("run", "full", "--target", "host", "--input", self.path("in.safetensors"))
        self.assertIn("no tensor 'q'", error)

    def test_files_that_are_damaged(self):
        run = ["run", "full", "--target", "host", "--input"]
        self.assertIn("No such file", self.error(*run, self.path("absent")))
        self.assertIn("too few", self.error(*run, self.file("short", "abc")))
        self.assertIn("cut short", self.error(*run, self.file("text", "attention full() {}")))

    def test_output_that_cannot_be_written(self):
        for path in "/dev/null/o", self.path("absent/o"):  # told before the variant is read
            message = self.error("run", self.path("none.attn"), "--output", path, expect=command_case.ENVIRONMENT)
            self.assertIn(f"{path} cannot be written", message)

    def test_the_input_is_not_overwritten(self):
        path, link = self.path("in.safetensors"), self.path("link")
        self.run_files(self.tensors())
        with open(path, "rb") as file:
            before = file.read()
        os.symlink(path, link)
        for output in [path, link, os.path.join(self.folder.name, ".", "in.safetensors")]:
            message = self.error("run", self.variant, "--target", "host", "--input", path,
                                 "--output", output)
            self.assertIn(f"--output {output} is the file of --input", message)
        with open(path, "rb") as file:
            self.assertEqual(file.read(), before)

    def test_outputs_that_are_no_regular_files(self):
        """A pipe is written to and stays. A link stays, and its target is replaced."""
        expected = self.path("expected")
        pipe = self.path("pipe")
        os.mkfifo(pipe)
        # Opened for reading and writing, so that neither side waits for the other. A pipe holds 64 KiB.
        descriptor = os.open(pipe, os.O_RDWR)
        self.addCleanup(os.close, descriptor)
        small = ["run", "full", *command_case.SMALL, "--length", "3", "--output"]
        self.call(*small, expected)
        self.call(*small, pipe)
        with open(expected, "rb") as file:
            content = file.read()
        self.assertEqual(os.read(descriptor, 1 << 16), content)
        self.assertTrue(stat.S_ISFIFO(os.stat(pipe).st_mode))

        os.mkdir(self.path("folder"))
        for target in ["there", "absent"]:
            with self.subTest(target):
                link = self.path(f"folder/to_{target}")
                os.symlink(os.path.join("..", target), link)
                if target == "there":
                    os.chmod(self.file(target, "old"), 0o600)
                self.call(*small, link)
                self.assertTrue(os.path.islink(link))
                with open(self.path(target), "rb") as file:
                    self.assertEqual(file.read(), content)
        self.assertEqual(stat.S_IMODE(os.stat(self.path("there")).st_mode), 0o600)
        self.assertEqual(len(os.listdir(self.path("folder"))), 2)

    def test_a_file_is_written_in_full_or_not_at_all(self):
        def no_room():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        here = ["causal", "--target", "host"]
        commands = [["run", *here, *command_case.SMALL[2:], "--no-cache", "--output"],
                    ["compile", *here, "--emit", "llvm", "-o"],
                    ["explain", *here, "--svg"]]
        for command in commands:
            for name, before in [("old", ["old"]), ("absent", [])]:
                with self.subTest(command[0], name=name), tempfile.TemporaryDirectory() as folder:
                    path = os.path.join(folder, name)
                    if before:
                        with open(path, "w", encoding="utf-8") as file:
                            file.write("what was there")
                    done = self.call(*command, path, expect=command_case.ENVIRONMENT, preexec_fn=no_room)
                    self.assertIn(f"{path} cannot be written: File too large", done.stderr.decode())
                    self.assertEqual(os.listdir(folder), before)
                    if before:
                        with open(path, encoding="utf-8") as file:
                            self.assertEqual(file.read(), "what was there")


if __name__ == "__main__":
    command_case.main()
