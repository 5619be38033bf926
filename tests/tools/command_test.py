# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The command end to end, on the host: `command_test.py PATH-OF-TESELA [unittest options]`.

import json
import math
import os
import random
import re
import resource
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import time
import unittest

TESELA = ""
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SUCCESS, WRONG_RESULT, BAD_INPUT, ENVIRONMENT = 0, 1, 2, 3
SMALL = ["--target", "host", "--repeat", "0", "--heads", "2", "--length", "33", "--head-dim", "64"]


def read_safetensors(path):
    """{name: (dtype, shape, bytes)}."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    return {
        name: (entry["dtype"], entry["shape"], data[slice(*entry["data_offsets"])])
        for name, entry in header.items()
    }


def write_safetensors(path, tensors):
    """`tensors`: {name: (dtype, shape, bytes)}."""
    header, data = {}, b""
    for name, (dtype, shape, content) in tensors.items():
        offsets = [len(data), len(data) + len(content)]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
        data += content
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def floats(values):
    return struct.pack(f"<{len(values)}f", *values)


def to_bshd(values, heads, length, dim):
    """[1, H, S, D] as [1, S, H, D]."""
    return [
        values[(h * length + s) * dim + d]
        for s in range(length)
        for h in range(heads)
        for d in range(dim)
    ]


def attention(q, k, v, heads, kv_heads, queries, keys, dim, score):
    """Softmax attention in double; returns o [H, Sq, D] and lse [H, Sq]. `score(s, h, q, k)` gives
    None where the key is masked."""
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
        self.assertRegex(self.output("--version"), r"^tesela \d+\.\d+\.\d+\n$")

    def test_help_teaches(self):
        self.assertIn("Exit codes", self.output("--help"))
        self.assertIn("safetensors", self.output("run", "--help"))
        self.assertIn("cubin", self.output("compile", "--help"))
        self.assertIn("partial", self.output("explain", "--help"))

    def test_what_is_wrong_is_named(self):
        self.call(expect=BAD_INPUT)
        self.assertIn("--lenght", self.error("run", "causal", "--lenght", "3"))
        self.assertIn("sm_NN", self.error("run", "causal", "--target", "gpu"))
        self.assertIn("--length", self.error("run", "causal", "--length", "-1"))
        self.assertIn("bf16", self.error("run", "causal", "--dtype", "f64"))
        self.assertIn("jumping", self.error("run", "causal", "--inputs", "hard"))
        self.assertIn("no multiple", self.error("run", "causal", "--heads", "3", "--kv-heads", "2"))
        self.assertIn("--emit", self.error("compile", "causal"))
        self.assertIn("did you mean 'causal'?", self.error("run", "causl"))
        self.assertNotIn("did you mean", self.error("run", "nothing_of_the_kind"))
        self.assertIn("'0' is no head dimension: give a multiple of 8 from 8 to 256",
                      self.error("run", "causal", "--head-dim", "0"))
        for heads in ["--heads", "--kv-heads"]:
            self.assertIn(f"{heads} 0: at least 1", self.error("run", "causal", heads, "0"))
        self.assertIn(" tune,", self.error())
        self.assertIn("cuasal", self.error("cuasal"))

    def test_paths_that_are_empty(self):
        here = ["full", "--target", "host"]
        for command, option in [("run", "--input"), ("run", "--output"), ("export", "--output"),
                                ("explain", "--svg"), ("explain", "--png"), ("tune", "--table")]:
            with self.subTest(command, option=option):
                self.assertIn(f"{option}: the path is empty",
                              self.error(command, *here, option, ""))

    def test_the_last_of_two_counts(self):
        report = self.run_json("full", *SMALL, "--length", "5")
        self.assertEqual(report["problem"]["length"], 5)

    def test_standard_output_that_is_full(self):
        with open("/dev/full", "wb") as full:
            self.call("devices", expect=ENVIRONMENT, stdout=full)
            # More than stdio's buffer holds, so that printing itself fails, and flushing does not.
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

    def test_a_gpu_that_is_not_there(self):
        self.environment["CUDA_VISIBLE_DEVICES"] = ""
        message = self.error("run", "causal", "--target", "sm_80", expect=ENVIRONMENT)
        self.assertIn("tesela: error: ", message)
        self.assertIn("--target host", message)
        # A target that is none is not the machine's fault.
        for command in ["run", "tune"]:
            self.assertIn("'sm_75' is not known", self.error(command, "causal", "--target", "sm_75"))
        # auto takes the host
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
                        template + template, template + template.replace("@forward", "@other"),
                        "// no kernel\n", "module {}\n"]:
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
        self.assertNotIn("time", report)

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
        self.assertEqual(len(variants), 2)
        for variant in variants:
            path = self.file("readme.attn", variant)
            self.assertTrue(self.run_json(path, *SMALL)["check"]["passed"])
        library = len(self.output("variants").splitlines())
        self.assertIn(f"[{library} are in the library]", text)
        self.assertIn(f"(docs/variants.md): {library}, ", text)

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
        self.assertIn("'sise'", self.error("run", variant, *SMALL, "--param", "sise=4"))
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
        # Each tensor fits, all of them and the reference do not.
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
        """As if it had been used so many days ago."""
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
        self.fill()  # it is compiled anew and replaced
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
            self.assertIn(f"--to: '{size}' is no size", self.error("cache", "prune", "--to", size))
        self.assertIn("--older", self.error("cache", "prune", "--older", "-1"))
        self.assertIn("subcommand", self.error("cache"))
        file = self.file("file", "")
        for command in ["list", "stats", "verify", "clear"]:
            message = self.error("cache", command, "--cache-folder", file, expect=ENVIRONMENT)
            self.assertIn(file, message)
        for name in ["TESELA_CACHE_DIR", "XDG_CACHE_HOME", "HOME"]:
            self.environment.pop(name, None)
        self.assertIn("TESELA_CACHE_DIR", self.error("cache", "list", expect=ENVIRONMENT))


class Files(CommandTest):
    HEADS, KV_HEADS, QUERIES, KEYS, DIM = 2, 1, 5, 7, 64

    def setUp(self):
        super().setUp()
        numbers = random.Random(1)
        def normal(*extents):
            return [numbers.gauss(0, 1) for _ in range(math.prod(extents))]
        # Rounded to f32, as the kernel sees them.
        def rounded(values):
            return list(struct.unpack(f"<{len(values)}f", floats(values)))
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
                  floats(order(self.q, self.HEADS, self.QUERIES))),
            "k": ("F32", shape(self.KV_HEADS, self.KEYS),
                  floats(order(self.k, self.KV_HEADS, self.KEYS))),
            "v": ("F32", shape(self.KV_HEADS, self.KEYS),
                  floats(order(self.v, self.KV_HEADS, self.KEYS))),
            "slope": ("F32", [self.HEADS], floats(self.slope)),
            "skip": ("I32", [self.KEYS], struct.pack(f"<{self.KEYS}i", *self.skip)),
        }

    def expected(self):
        def score(s, h, q, k):
            return s + self.slope[h] * (k - q) if self.skip[k] == 0 and k <= q + 2 else None
        return attention(self.q, self.k, self.v, self.HEADS, self.KV_HEADS, self.QUERIES, self.KEYS,
                         self.DIM, score)

    def run_files(self, tensors, *options, expect=SUCCESS):
        write_safetensors(self.path("in.safetensors"), tensors)
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
        written = read_safetensors(self.path("out.safetensors"))
        self.assertEqual(written["o"][:2], ("F32", [1, self.HEADS, self.QUERIES, self.DIM]))
        self.assertEqual(written["lse"][:2], ("F32", [1, self.HEADS, self.QUERIES]))
        self.assert_close(written["o"][2], o)
        self.assert_close(written["lse"][2], lse)

    def test_captures_of_small_types(self):
        """A mask of bytes, biases of bf16 and f16, as a file holds them."""
        generator = random.Random(5)
        heads, length, dim = 2, 9, 64
        q, k, v = ([generator.gauss(0, 1) for _ in range(heads * length * dim)] for _ in range(3))
        kept = [generator.choice((0, 0, 1, 1)) for _ in range(length * length)]
        bias = [generator.choice((-0.5, 0.25, 1.0)) for _ in range(heads * length)]
        half = [generator.choice((-0.5, 0.25, 1.0)) for _ in range(length)]
        shape = [1, heads, length, dim]
        tensors = {name: ("F32", shape, floats(x)) for name, x in (("q", q), ("k", k), ("v", v))}
        tensors["kept"] = ("BOOL", [length, length], bytes(kept))
        tensors["bias"] = (
            "BF16", [heads, length], b"".join(struct.pack("<f", x)[2:] for x in bias)
        )
        tensors["half"] = ("F16", [length], struct.pack(f"<{length}e", *half))
        write_safetensors(self.path("in.safetensors"), tensors)
        variant = self.file(
            "kept.attn",
            "attention kept(kept: bool[Sq, Sk], bias: bf16[H, Sk], half: f16[Sq]) {\n"
            "  mask = kept[q, k]\n  score = s + bias[h, k] * half[q]\n}\n",
        )
        self.call(
            "run", variant, "--target", "host", "--repeat", "0",
            "--input", self.path("in.safetensors"), "--output", self.path("out.safetensors"),
        )
        result = read_safetensors(self.path("out.safetensors"))
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
        written = read_safetensors(self.path("out.safetensors"))
        self.assertEqual(written["o"][1], [1, self.QUERIES, self.HEADS, self.DIM])
        self.assert_close(written["o"][2], to_bshd(o, self.HEADS, self.QUERIES, self.DIM))
        self.assert_close(written["lse"][2], lse)

    def test_nans_in_the_data(self):
        """In q they make a row NaN, which is right; in v they leave nothing to check by."""
        tensors = self.tensors()
        tensors["q"] = ("F32", tensors["q"][1], floats([math.nan] + self.q[1:]))
        done = self.run_files(tensors, "--json")
        self.assertIn("1 of 10 rows are NaN, as they must be", done.stderr.decode())
        check = json.loads(done.stdout)["check"]
        self.assertEqual((check["passed"], check["nan_rows"], check["nan_count"]), (True, 1, 0))
        tensors = self.tensors()
        tensors["v"] = ("F32", tensors["v"][1], floats([math.nan] + self.v[1:]))
        done = self.run_files(tensors, expect=WRONG_RESULT)
        self.assertIn("the result cannot be checked: the reference is nan at b 0, h 0, q 0, d 0",
                      done.stderr.decode())

    def refused(self, tensors, *options):
        return self.run_files(tensors, *options, expect=BAD_INPUT).stderr.decode()

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
        # A file with none of the variant's names is no such file.
        write_safetensors(self.path("in.safetensors"), captures)
        error = self.error("run", "full", "--target", "host", "--input", self.path("in.safetensors"))
        self.assertIn("no tensor 'q'", error)

    def test_files_that_are_damaged(self):
        run = ["run", "full", "--target", "host", "--input"]
        self.assertIn("No such file", self.error(*run, self.path("absent")))
        self.assertIn("too few", self.error(*run, self.file("short", "abc")))
        self.assertIn("cut short", self.error(*run, self.file("text", "attention full() {}")))

    def test_output_that_cannot_be_written(self):
        message = self.error("run", "full", *SMALL, "--output", "/dev/null/o", expect=ENVIRONMENT)
        self.assertIn("cannot be written", message)

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
        """A pipe is written, and stays; so does a link, and what it leads to is replaced."""
        expected = self.path("expected")
        pipe = self.path("pipe")
        os.mkfifo(pipe)
        # Opened for both, so that neither side waits for the other; the pipe holds 64 KiB.
        descriptor = os.open(pipe, os.O_RDWR)
        self.addCleanup(os.close, descriptor)
        small = ["run", "full", *SMALL, "--length", "3", "--output"]
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
        commands = [["run", *here, *SMALL[2:], "--no-cache", "--output"],
                    ["compile", *here, "--emit", "llvm", "-o"],
                    ["explain", *here, "--svg"], ["explain", *here, "--png"]]
        for command in commands:
            for name, before in [("old", ["old"]), ("absent", [])]:
                with self.subTest(command[0], name=name), tempfile.TemporaryDirectory() as folder:
                    path = os.path.join(folder, name)
                    if before:
                        with open(path, "w", encoding="utf-8") as file:
                            file.write("what was there")
                    done = self.call(*command, path, expect=ENVIRONMENT, preexec_fn=no_room)
                    self.assertIn(f"{path} cannot be written: File too large", done.stderr.decode())
                    self.assertEqual(os.listdir(folder), before)
                    if before:
                        with open(path, encoding="utf-8") as file:
                            self.assertEqual(file.read(), "what was there")


if __name__ == "__main__":
    TESELA = os.path.abspath(sys.argv.pop(1))
    unittest.main()
