# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# `tesela explain` end to end: `explain_test.py PATH-OF-TESELA [unittest options]`.

import json
import math
import os
import pty
import re
import struct
import subprocess
from xml.etree import ElementTree

import command_case
import safetensors_files


class Explain(command_case.CommandTest):
    SMALL = ["--target", "host", "--head-dim", "64", "--schedule", "block_m = 8, block_n = 16, heads = 1"]

    def explain(self, *arguments):
        return json.loads(self.output("explain", *arguments, "--json"))

    def dense(self, report, keeps):
        """The kinds of tiles, from `keeps(q, k)`."""
        rows, columns = report["tile"]["queries"], report["tile"]["keys"]
        queries, keys = report["problem"]["length"], report["problem"]["kv_length"]
        kinds = []
        for q0 in range(0, queries, rows):
            kinds.append("")
            for k0 in range(0, keys, columns):
                kept = [keeps(q, k) for q in range(q0, min(q0 + rows, queries))
                        for k in range(k0, min(k0 + columns, keys))]
                whole = all(kept) and k0 + columns <= keys
                kinds[-1] += "f" if whole else "p" if any(kept) else "e"
        return kinds

    def test_kinds_are_those_of_the_dense_mask(self):
        for length, kv_length in [(64, 64), (61, 83), (16, 100), (1, 40), (40, 0)]:
            with self.subTest(length=length, kv_length=kv_length):
                report = self.explain("sliding_window", "--param", "window=20", *self.SMALL, "--length",
                                      str(length), "--kv-length", str(kv_length))
                (head,) = report["heads"]
                keeps = lambda q, k: q >= k and q - k < 20
                self.assertEqual(head["kinds"], self.dense(report, keeps))
                text = "".join(head["kinds"])
                self.assertEqual([head["empty"], head["partial"], head["full"]],
                                 [text.count(kind) for kind in "epf"])
                kept = sum(keeps(q, k) for q in range(length) for k in range(kv_length))
                self.assertEqual(head["kept_pairs"], kept)
                per_pair, heads = 2 * (64 + 64), report["problem"]["heads"]
                tile = per_pair * 8 * 16 * heads
                flop = report["flop"]
                self.assertEqual(flop["all"], tile * len(text))
                self.assertEqual(flop["skipped"], tile * head["empty"])
                self.assertEqual(flop["all"] - flop["skipped"] - flop["masked"] -
                                 flop["beyond_the_ends"], per_pair * kept * heads)

    def test_kinds_of_gradients_are_those_of_the_dense_mask(self):
        keeps = lambda q, k: q >= k and q - k < 20
        for kernel, tile in [("dq", [8, 16]), ("dkdv", [16, 8])]:
            for length, kv_length in [(64, 64), (61, 83), (16, 100), (40, 0)]:
                with self.subTest(kernel=kernel, length=length, kv_length=kv_length):
                    report = self.explain("sliding_window", "--param", "window=20", *self.SMALL,
                                          "--length", str(length), "--kv-length", str(kv_length),
                                          "--pass", kernel)
                    self.assertEqual(report["kernel"]["pass"], kernel)
                    self.assertEqual(list(report["tile"].values()), tile)
                    (head,) = report["heads"]
                    self.assertEqual(head["kinds"], self.dense(report, keeps))
                    self.assertEqual(head["kept_pairs"],
                                     sum(keeps(q, k) for q in range(length) for k in range(kv_length)))
                    products = {"dq": 3, "dkdv": 4}[kernel]
                    per_tile = products * 2 * 64 * 8 * 16 * report["problem"]["heads"]
                    self.assertEqual(report["flop"]["skipped"], per_tile * head["empty"])

    def test_gradients_of_heads_that_share_keys(self):
        """A block of keys visits what any query head that shares it needs."""
        variant = self.file("head.attn", "attention head(reach: i32[H]) { mask = q < reach[h] }\n")
        captures = self.path("captures.safetensors")
        safetensors_files.write_safetensors(captures, {"reach": ("I32", [4], struct.pack("<4i", 8, 16, 64, 0))})
        report = self.explain(variant, *self.SMALL, "--heads", "4", "--kv-heads", "2", "--length", "64",
                              "--kv-length", "8", "--input", captures, "--pass", "dkdv")
        kinds = ["".join(head["kinds"]) for head in report["heads"]]
        self.assertEqual([kind.index("e") if "e" in kind else 4 for kind in kinds], [1, 1, 4, 4])

    def test_passes_for_people(self):
        arguments = ["explain", "causal", "--target", "sm_90", "--length", "4096"]
        text = self.output(*arguments, "--pass", "dkdv")
        self.assertIn("kernel     dkdv for sm_90", text)
        self.assertIn("closed query ranges, 1 run", text)
        self.assertIn("kernel     dq for sm_90", self.output(*arguments, "--pass", "dq"))
        self.assertIn("--pass", self.error(*arguments, "--pass", "dk"))

    def test_blocks_of_the_host_follow_the_mask(self):
        for variant, rows in [("causal", 128), ("sliding_window", 64)]:
            report = self.explain(variant, "--target", "host", "--length", "4096", "--heads", "1")
            self.assertEqual(report["tile"]["queries"], rows)

    def test_report_for_people(self):
        text = self.output("explain", "causal", "--target", "sm_90", "--length", "4096", "--schedule",
                           "block_n = 128")
        for line in ["form       closed key ranges, 1 run", "496 (48.4 %)", "every head",
                     "skipped    33.3 GFLOP of 68.7 GFLOP (48.4 %)", "128 queries x 128 keys"]:
            self.assertIn(line, text)
        self.assertIn("every tile runs", self.output("explain", "full", "--target", "sm_80"))

    def test_heads_that_differ(self):
        variant = self.file("head.attn", "attention head(reach: i32[B, H]) {\n"
                            "  mask = k < reach[b, h]\n}\n")
        captures = self.path("captures.safetensors")
        safetensors_files.write_safetensors(captures, {"reach": ("I32", [2, 2], struct.pack("<4i", 0, 32, 40, 99))})
        arguments = [variant, *self.SMALL, "--batch", "2", "--heads", "2", "--length", "8",
                     "--kv-length", "64", "--input", captures]
        report = self.explain(*arguments)
        self.assertEqual([(head["b"], head["h"], head["kinds"]) for head in report["heads"]],
                         [(0, 0, ["eeee"]), (0, 1, ["ffee"]), (1, 0, ["ffpe"]), (1, 1, ["ffff"])])
        self.assertIn("b 1, h 0", self.output("explain", *arguments))

    def test_the_file_tells_the_lengths(self):
        captures = self.path("captures.safetensors")

        def problem(parameters, tensors, *arguments, mask="q >= k"):
            """Explains a variant with these parameters, whose tensors are zeros."""
            variant = self.file("lengths.attn", f"attention lengths({parameters}) {{ mask = {mask} }}\n")
            sizes = {"I32": 4, "BF16": 2, "F16": 2}
            safetensors_files.write_safetensors(captures, {
                name: (dtype, shape, bytes(sizes[dtype] * math.prod(shape)))
                for name, (dtype, shape) in tensors.items()})
            self.arguments = [variant, *self.SMALL[:2], "--input", captures, *arguments]
            found = self.explain(*self.arguments)["problem"]
            names = ["batch", "heads", "kv_heads", "length", "kv_length", "head_dim_qk", "head_dim_v"]
            return [found[name] for name in names], found["dtype"]

        default = [128, 128]
        tensors = {"id": ("I32", [2, 90])}
        self.assertEqual(problem("id: i32[B, Sk]", tensors), ([2, 8, 8, 90, 90, *default], "bf16"))
        self.assertEqual(problem("id: i32[B, Sq]", tensors), ([2, 8, 8, 90, 90, *default], "bf16"))
        self.assertEqual(problem("id: i32[B, N]", tensors), ([2, 8, 8, 90, 90, *default], "bf16"))
        self.assertEqual(problem("id: i32[B, 2*Sk-10]", tensors), ([2, 8, 8, 50, 50, *default], "bf16"))
        self.assertEqual(problem("id: i32[Hkv, Sk]", tensors), ([1, 2, 2, 90, 90, *default], "bf16"))
        self.assertEqual(problem("id: i32[B, Sk]", tensors, "--length", "30", "--batch", "2"),
                         ([2, 8, 8, 30, 90, *default], "bf16"))
        self.assertEqual(problem("id: i32[B, N]", tensors, "--length", "30"),
                         ([2, 8, 8, 30, 30, *default], "bf16"))
        self.assertEqual(problem("a: i32[N], c: i32[M]", {"a": ("I32", [5]), "c": ("I32", [6])})[0][3:5],
                         [1024, 1024])
        inputs = {"q": ("F16", [2, 4, 33, 64]), "k": ("F16", [2, 2, 70, 64]), "v": ("F16", [2, 2, 70, 128]),
                  "id": ("I32", [2, 70])}
        self.assertEqual(problem("id: i32[B, Sk]", inputs), ([2, 4, 2, 33, 70, 64, 128], "f16"))
        self.assertEqual(problem("id: i32[B, Sk]", inputs | {"q": ("F16", [2, 33, 4, 64]), "k": ("F16", [2, 70, 2, 64]),
                                                             "v": ("F16", [2, 70, 2, 128])}, "--layout", "bshd"),
                         ([2, 4, 2, 33, 70, 64, 128], "f16"))

        for option in ["--length", "--kv-length", "--batch", "--heads", "--kv-heads", "--head-dim"]:
            problem("id: i32[B, Sk]", inputs)
            self.assertRegex(self.error("explain", *self.arguments, option, "48"),
                             f"{option} 48: '.*' of .*captures.safetensors says that .* leave {option} out")
        self.assertIn("--dtype bf16: 'q' of", self.error("explain", *self.arguments, "--dtype", "bf16"))
        self.assertRegex(self.error("explain", *self.arguments, "--layout", "bshd"),
                         r"'k' says that Sk is 2, 'id' that it is 70: .* \(--layout\)")
        safetensors_files.write_safetensors(captures, {"id": ("I32", [2, 70], bytes(560)), "a": ("I32", [71], bytes(284))})
        both = self.file("both.attn", "attention both(id: i32[B, Sk], a: i32[Sk]) { mask = id[b, k] == a[k] }\n")
        self.assertIn("'id' says that Sk is 70, 'a' that it is 71",
                      self.error("explain", both, "--input", captures))

    def test_captures_are_those_of_run(self):
        arguments = ["prefix_lm", "--target", "host", "--head-dim", "64", "--batch", "2", "--length",
                     "90", "--heads", "1", "--seed", "5"]
        kept = [head["kept_pairs"] for head in self.explain(*arguments)["heads"]]
        self.assertEqual(len(kept), 2)
        self.assertEqual(self.run_json(*arguments, "--repeat", "0")["problem"]["kept_pairs"], sum(kept))

    def test_pictures(self):
        svg = self.path("mask.svg")
        self.output("explain", "causal", *self.SMALL, "--length", "32", "--svg", svg)
        root = ElementTree.parse(svg).getroot()
        paths = {}
        for path in root.iter("{http://www.w3.org/2000/svg}path"):
            boxes = re.findall(r"M\S+ \S+h(\S+?)v(\S+?)h", path.get("d"))
            area = sum(float(width) * float(height) for width, height in boxes)
            paths[path.get("class")] = paths.get(path.get("class"), 0) + area
        tile = 8 * 16 * 15 * 15  # a token is 15 units wide
        self.assertEqual(paths["full"], 2 * tile)
        self.assertEqual(paths["partial"], 4 * tile)
        self.assertEqual(paths["empty"], 2 * tile)
        self.assertEqual(paths["kept"], 32 * 33 / 2 * 15 * 15)
        texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
        self.assertTrue(any("causal: 32 x 32 tokens" in text for text in texts))

    def test_the_pictures_of_the_documentation(self):
        folder = os.path.join(command_case.ROOT, "docs", "pictures")
        subprocess.run([os.path.join(folder, "make"), self.tesela, self.folder.name], check=True)
        with open(os.path.join(command_case.ROOT, "docs", "analysis.md"), encoding="utf-8") as page:
            shown = set(re.findall(r"pictures/(\w+\.svg)", page.read()))
        self.assertEqual(shown, {name for name in os.listdir(folder) if name.endswith(".svg")})
        self.assertEqual(shown, {name for name in os.listdir(self.folder.name) if ".svg" in name})

    def test_the_page_of_the_library(self):
        root = command_case.ROOT
        with open(os.path.join(root, "docs", "variants.md"), encoding="utf-8") as page:
            text = page.read()
        library = {name for name in os.listdir(os.path.join(root, "templates", "variants"))}
        rows = re.findall(r"\| \[`(\w+)`\]\(\.\./templates/variants/(\w+\.attn)\) (.*) \|\n", text)
        self.assertEqual(sorted(name + ".attn" for name, _, _ in rows), sorted(library))
        for name, file, words in rows:
            self.assertEqual(name + ".attn", file)
            with open(os.path.join(root, "templates", "variants", file), encoding="utf-8") as variant:
                comment = " ".join(line[3:].strip() for line in variant if line.startswith("//"))
            self.assertEqual(words.replace("<br>*Source:*", " Source:"), comment)
        subprocess.run([os.path.join(root, "scripts", "draw-variants"), self.tesela,
                        self.path("drawn")], check=True)
        shown = set(re.findall(r"pictures/variants/(\w+\.svg)", text))
        self.assertEqual(shown, set(os.listdir(os.path.join(root, "docs", "pictures", "variants"))))
        self.assertEqual(shown, set(os.listdir(self.path("drawn"))))

    def test_a_million_tokens(self):
        million = ["--length", str(1 << 20), "--heads", "1", "--target", "sm_90"]
        window, counts = ["--param", "window=1000"], {}
        # Key ranges; many tests of tiles with neighbouring documents; nearly all tiles partial; more tiles than can be
        # reported one by one.
        # can be told one by one.
        for variant, tokens, arguments in [("sliding_window", 1 << 20, window),
                                           ("documents_causal", 1 << 20, []),
                                           ("documents", 1 << 19, []),
                                           ("sliding_window", 1 << 22, window)]:
            svg = self.path("mask.svg")
            text = self.output("explain", variant, *million, "--length", str(tokens), "--svg", svg,
                               *arguments)
            queries, keys, rows, columns = map(int, re.search(
                r"tile +(\d+) queries x (\d+) keys: (\d+) rows of (\d+) tiles", text).groups())
            self.assertEqual(rows, tokens // queries)
            self.assertEqual(columns, -(-tokens // keys))
            line = re.search(r"^tiles.*\n +(\d+) .*?(\d+) \(.*?(\d+) \(.*", text, re.MULTILINE)
            empty, partial, full = map(int, line.groups())
            self.assertEqual(empty + partial + full, rows * columns)
            counts[variant, tokens] = queries, keys, rows, columns, empty, partial, full
            with open(svg, encoding="utf-8") as file:
                self.assertIn(f"{tokens} x {tokens} tokens", file.read())
        for tokens in [1 << 20, 1 << 22]:
            queries, keys, rows, columns, empty, partial, full = counts["sliding_window", tokens]
            visited = sum((row * queries + queries - 1) // keys - max(row * queries - 999, 0) // keys + 1
                          for row in range(rows))
            self.assertEqual(partial + full, visited)
            self.assertGreater(full, 0)
        queries, keys, rows, columns, empty, partial, full = counts["documents_causal", 1 << 20]
        self.assertGreater(empty, rows * columns * 0.49)
        self.assertGreater(counts["documents", 1 << 19][5], 0)

    def test_progress_is_for_terminals(self):
        arguments = ["explain", "documents_causal", "--length", "65536", "--heads", "1"]
        self.assertEqual(self.call(*arguments).stderr, b"")
        ours, theirs = pty.openpty()
        done = subprocess.run([self.tesela, *arguments], env=self.environment, check=True,
                              stdout=subprocess.PIPE, stderr=theirs)
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # the other side is closed
                break
            shown += part
            if not part:
                break
        os.close(ours)
        self.assertIn(b"100 % of the tiles classified", shown)
        self.assertTrue(shown.endswith(b"\r"), shown)  # and the line was erased
        self.assertNotIn(b"%\r", done.stdout)

    def test_what_is_wrong_is_named(self):
        self.assertIn("window", self.error("explain", "sliding_window", "--param", "width=3"))
        self.assertIn("not a multiple", self.error("explain", "causal", "--heads", "3", "--kv-heads", "2"))
        self.assertIn("block_m", self.error("explain", "causal", "--schedule", "block_q = 3"))
        self.assertIn("--length", self.error("explain", "causal", "--length", "-1"))
        self.assertIn("100", self.error("explain", "causal", "--head-dim", "100"))
        self.assertIn("sm_NN", self.error("explain", "causal", "--target", "gpu"))
        self.assertIn("tiles", self.error("explain", "causal", "--length", str(1 << 30)))
        bad = self.file("bad.attn", "attention bad() {\n  mask = q >= kk\n}\n")
        self.assertIn("bad.attn:2:15: error:", self.error("explain", bad))
        captures = self.path("captures.safetensors")
        safetensors_files.write_safetensors(captures, {"prefix": ("I32", [2], bytes(8))})
        prefix = ["explain", "prefix_lm", "--input", captures]
        self.assertIn("says that B is 2", self.error(*prefix, "--batch", "1"))
        self.output(*prefix)
        self.assertIn("slope", self.error("explain", "alibi", "--input", captures))
        self.assertIn("No such file", self.error("explain", "alibi", "--input", self.path("absent")))
        for path in "/dev/null/x", self.path("absent/mask.svg"):  # told before the variant is read
            self.assertIn(f"{path} cannot be written", self.error("explain", bad, "--svg", path,
                                                                  expect=command_case.ENVIRONMENT))


if __name__ == "__main__":
    command_case.main()
