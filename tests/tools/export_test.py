# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# `tesela export` and examples/aot, as a user meets them: `export_test.py PATH-OF-TESELA FOLDER-OF-A-DRIVER [unittest
# options]`. That driver computes nothing.

import ctypes
import hashlib
import json
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

TESELA = DRIVER = ""
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
EXAMPLE = os.path.join(ROOT, "examples", "aot", "main.c")
SUCCESS, BAD_INPUT, ENVIRONMENT = 0, 2, 3
STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic"]


def has_gpu():
    try:
        return ctypes.CDLL("libcuda.so.1").cuInit(0) == 0
    except OSError:
        return False


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, **options)


class Export(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def export(self, *arguments, code=SUCCESS, **options):
        done = run(TESELA, "export", *arguments, cwd=self.folder, **options)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout if code == SUCCESS else done.stderr

    def manifest(self, bundle):
        with open(os.path.join(self.folder, bundle, "manifest.json"), encoding="utf-8") as file:
            return json.load(file)

    def compile(self, *arguments, compiler="cc"):
        done = run(compiler, *STRICT, *arguments, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")


class Command(Export):
    def test_what_is_written(self):
        text = self.export("sliding_window", "--target", "sm_80,sm_90,host", "--head-dim", "64",
                           "-o", "out")
        self.assertRegex(text, r"(?m)^sm_90 +(cubin|ptx) +\d+ bytes  out/sm_90\.kernel$")
        self.assertIn("out/sliding_window.h, out/sliding_window.c", text)
        manifest = self.manifest("out")
        self.assertEqual(manifest["format"], 1)
        self.assertEqual([each["target"] for each in manifest["targets"]], ["sm_80", "sm_90", "host"])
        for each in manifest["targets"]:
            with open(os.path.join(self.folder, "out", each["file"]), "rb") as file:
                content = file.read()
            self.assertEqual(hashlib.sha256(content).hexdigest(), each["digest"])
            self.assertEqual(len(content), each["bytes"])
            if each["code_format"] == "cubin":
                self.assertGreater(each["registers"], 0)
                self.assertIn("spill_bytes", each)
        self.assertEqual(manifest["targets"][1]["architecture"], "sm_90a")
        self.assertEqual(manifest["parameters"], [{"name": "window", "type": "i32", "default": 4096}])
        self.assertEqual({"manifest.json", "sm_80.kernel", "sm_90.kernel", "host.kernel",
                          *manifest["c_files"]}, set(os.listdir(os.path.join(self.folder, "out"))))

    def test_the_host_alone_has_no_launcher(self):
        text = self.export("causal", "--target", "host", "--dtype", "f32", "-o", "out")
        self.assertNotIn(".c", text)
        self.assertEqual(set(os.listdir(os.path.join(self.folder, "out"))),
                         {"manifest.json", "host.kernel"})

    def test_constants_schedules_and_names(self):
        self.export("block_causal", "--target", "sm_80", "--schedule", "block_m = 64", "--name", "mine",
                    "--ptx", "-o", "out")
        manifest = self.manifest("out")
        self.assertEqual(manifest["name"], "mine")
        self.assertEqual(manifest["variant"]["name"], "block_causal")
        self.assertIn("block_m = 64", manifest["targets"][0]["schedule"])
        self.assertEqual(manifest["targets"][0]["code_format"], "ptx")
        self.assertEqual(manifest["c_files"], ["mine.h", "mine.c", "mine_sm_80.inc"])

    def test_gradients(self):
        self.export("causal", "--algorithm", "backward", "--target", "sm_80,sm_90,host", "--head-dim",
                    "64", "--ptx", "-o", "out")
        manifest = self.manifest("out")
        self.assertEqual(manifest["name"], "causal_backward")
        self.assertEqual(manifest["variant"]["name"], "causal")
        roles = {each["name"]: (each["role"], each["optional"]) for each in manifest["tensors"]}
        self.assertEqual(roles["lse"], ("in", False))
        self.assertEqual(roles["dlse"], ("in", True))
        self.assertEqual([name for name, role in roles.items() if role[0] == "out"], ["dk", "dv", "dq"])
        for target in manifest["targets"]:
            self.assertEqual([each["kernel"] for each in target["launches"]],
                             ["backward_rows", "backward_keys", "backward_joined_keys",
                              "backward_queries"])
            # On sm_90 work items add to sums of dq in turn.
            sums = ["dq_sum", "turns"] if target["target"] == "sm_90" else []
            self.assertEqual([each["name"] for each in target["workspaces"]],
                             ["row_lse", "delta", *sums, "dk_parts", "dv_parts"])

    def test_templates_parameters(self):
        self.export("causal", "--algorithm", "forward_in_parts", "--bind", "workers=4", "--target", "host",
                    "-o", "out")
        self.assertEqual(self.manifest("out")["name"], "causal_forward_in_parts")
        message = self.export("causal", "--algorithm", "backwards", "--target", "host", "-o", "other",
                              code=ENVIRONMENT)
        self.assertIn("there is no template 'backwards'; did you mean 'backward'?", message)

    def test_pages(self):
        """Tensors of several types and ranks, and an extent that no tensor gives."""
        where = ["causal", "--algorithm", "forward_in_parts", "--target", "sm_90,host", "--ptx", "-o", "out",
                 "--name", "served"]
        for binding in ("queries=ragged", "keys=paged", "page=16", "positions=end", "cache=e4m3", "workers=4"):
            where += ["--bind", binding]
        self.assertIn("out/served.h, out/served.c", self.export(*where))
        with open(os.path.join(self.folder, "out", "served.h")) as file:
            header = file.read()
        for line in ("served_tensor k; /* e4m3 [any, Hkv, 16, 128]; H is a multiple of Hkv */",
                     "served_tensor_2 table; /* i32 [B, any] */", "served_tensor_1 starts_q; /* i32 [B + 1] */",
                     "int64_t Sq; /* the most queries of a sequence, or more; no tensor has it: set it */"):
            self.assertIn(line, header)
        subprocess.run(["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only",
                        os.path.join(self.folder, "out", "served.c")], check=True)
        manifest = self.manifest("out")
        names = [each["name"] for each in manifest["tensors"]]
        self.assertEqual(set(names) & {"table", "lengths", "starts_q", "k_scale"},
                         {"table", "lengths", "starts_q", "k_scale"})
        for target in manifest["targets"]:
            self.assertEqual([each["kernel"] for each in target["launches"]], ["forward_parts", "merge_parts"])

    def test_a_failure_leaves_an_empty_folder(self):
        def no_room():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
        where = ["causal", "--target", "sm_80", "--ptx", "-o", "out"]
        self.assertIn("File too large", self.export(*where, code=ENVIRONMENT, preexec_fn=no_room))
        self.assertEqual(os.listdir(os.path.join(self.folder, "out")), [])
        self.export(*where)

    def test_own_templates(self):
        shutil.copytree(os.path.join(ROOT, "templates"), os.path.join(self.folder, "mine"))
        os.rename(os.path.join(self.folder, "mine", "matmul.mlir"), os.path.join(self.folder, "mine", "product.mlir"))
        where = ["full", "--algorithm", "product", "--bind", "columns=64", "--target", "sm_80,host", "--ptx"]
        self.export(*where, "--templates", "mine", "-o", "out")
        self.assertEqual([each["name"] for each in self.manifest("out")["tensors"]], ["a", "b", "o"])
        self.assertIn("there is no template 'product'", self.export(*where, "-o", "other", code=ENVIRONMENT))

    def test_without_a_launcher(self):
        text = self.export("causal", "--target", "sm_80", "--ptx", "--no-launcher", "-o", "out")
        self.assertNotIn("\nC ", text)
        self.assertEqual(self.manifest("out")["c_files"], [])
        self.assertEqual(set(os.listdir(os.path.join(self.folder, "out"))), {"manifest.json", "sm_80.kernel"})

    def test_what_is_refused(self):
        for arguments, sentence in [
            (["causal", "--target", "sm_80"], "--output is required"),
            (["causal", "-o", "out"], "--target is required"),
            (["causal", "-o", "out", "--target", "auto"], "a bundle cannot have the target 'auto'"),
            (["causal", "-o", "out", "--target", "cuda"], "'cuda' is not a target: give host, or sm_NN such as sm_80"),
            (["causal", "-o", "out", "--target", "sm_91"], "the target 'sm_91' is not known"),
            (["causal", "-o", "out", "--target", "host,host"], "named twice"),
            (["causal", "-o", "out", "--target", "sm_80", "--dtype", "f32"], "on the host only"),
            (["causal", "-o", "out", "--target", "sm_80", "--name", "a b"], "'a b' cannot be"),
            (["nothing", "-o", "out", "--target", "sm_80"], "there is no file nothing"),
            (["causal", "-o", ".", "--target", "host"], "contains other files but no bundle"),
        ]:
            with self.subTest(arguments=arguments):
                with open(os.path.join(self.folder, "mine.txt"), "w", encoding="utf-8"):
                    pass
                self.assertIn(sentence, self.export(*arguments, code=BAD_INPUT))
                self.assertEqual(os.listdir(self.folder), ["mine.txt"])


@unittest.skipUnless(shutil.which("cc"), "needs a C compiler")
class Launcher(Export):
    def test_compilers_do_not_warn(self):
        # Names that C or other members use already; a float that decimal digits cannot represent.
        with open(os.path.join(self.folder, "odd.attn"), "w", encoding="utf-8") as file:
            file.write("attention odd(short: i32 = -2147483648, lse: f32 = 0.1, scale: f32 = inf, "
                       "class: f32[n], workspace: i32[3*n-1]) {\n"
                       "  score = s * lse + class[k] + workspace[q] * short\n  mask = s < scale\n}\n"
                       .replace("s < scale", "q < short || k > 3"))
        self.export("odd.attn", "--target", "sm_80,sm_90", "--ptx", "-o", "odd")
        for standard in "c99", "c11":
            for level in "-O0", "-O2":
                self.compile(f"-std={standard}", level, "-c", "odd/odd.c", "-o", "odd.o")
        self.compile("-std=c++17", "-fsyntax-only", "-x", "c++", "odd/odd.h", compiler="c++")
        with open(os.path.join(self.folder, "use.c"), "w", encoding="utf-8") as file:
            file.write('#include "odd.h"\n#include <math.h>\n#include <stdio.h>\n'
                       "int main(void) {\n  odd_arguments a;\n  odd_set_defaults(&a);\n"
                       '  printf("%d %.9g %d %.9g", (int)a.short_, a.lse_, isinf(a.scale_) != 0, a.scale);\n'
                       "  return a.class_.data != NULL || a.workspace_.data != NULL;\n}\n")
        self.compile("use.c", "odd/odd.c", "-Iodd", "-o", "use", "-ldl")
        self.assertEqual(run(os.path.join(self.folder, "use")).stdout,
                         "-2147483648 0.100000001 1 0.0883883461")

    def test_both_passes_in_one_program(self):
        """Tensors have their names in C, and a launch may leave out dlse."""
        for algorithm in "forward", "backward":
            self.export("causal", "--algorithm", algorithm, "--target", "sm_80,sm_90", "--head-dim",
                        "64", "--ptx", "-o", algorithm)
        with open(os.path.join(self.folder, "backward", "causal_backward.h"), encoding="utf-8") as file:
            header = file.read()
        self.assertRegex(header, r"const void \*dlse; +/\* f32 \[B, H, Sq\] without gaps: zeros at NULL \*/")
        self.assertRegex(header, r"const void \*lse; +/\* f32 \[B, H, Sq\] without gaps \*/")
        self.assertRegex(header, r"causal_backward_tensor do_; /\* bf16 \[B, H, Sq, 64\] \*/")
        self.assertRegex(header, r"causal_backward_tensor dq; /\* bf16 \[B, H, Sq, 64\]: written \*/")
        with open(os.path.join(self.folder, "both.c"), "w", encoding="utf-8") as file:
            file.write('#include "causal.h"\n#include "causal_backward.h"\n'
                       "int main(void) {\n  causal_backward_arguments a;\n"
                       "  causal_backward_set_defaults(&a);\n  return a.dlse != NULL;\n}\n")
        self.compile("both.c", "forward/causal.c", "backward/causal_backward.c", "-Iforward",
                     "-Ibackward", "-o", "both", "-ldl")
        self.assertEqual(run(os.path.join(self.folder, "both")).returncode, 0)

    def test_bundles_side_by_side(self):
        for name in "first", "second":
            self.export("causal", "--target", "sm_80", "--ptx", "--name", name, "-o", name)
        with open(os.path.join(self.folder, "both.c"), "w", encoding="utf-8") as file:
            file.write('#include "first.h"\n#include "second.h"\nint main(void) { return 0; }\n')
        self.compile("both.c", "first/first.c", "second/second.c", "-Ifirst", "-Isecond", "-ldl")


@unittest.skipUnless(shutil.which("cc"), "needs a C compiler")
class Example(Export):
    def setUp(self):
        super().setUp()
        shutil.copy(EXAMPLE, self.folder)
        with open(EXAMPLE, encoding="utf-8") as file:
            lines = re.findall(r"^ \*   ((?:tesela|cc) .*)$", file.read(), re.MULTILINE)
        self.assertEqual(len(lines), 2)  # the two commands in its comment
        self.export(*shlex.split(lines[0])[2:])
        self.compile(*shlex.split(lines[1])[1:], "-ldl")
        self.program = os.path.join(self.folder, "main")

    def test_on_a_gpu(self):
        if not has_gpu():
            self.skipTest("needs a GPU")
        done = run(self.program)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"^sm_\d+: the largest error is ")

    def test_it_tells_wrong_results(self):
        # The kernel is launched, but nothing is computed, so the results are not the expected ones.
        self.export("causal", "--target", "sm_80,sm_90", "--head-dim", "64", "--ptx", "-o",
                    "causal_bundle")
        self.compile("main.c", "causal_bundle/causal.c", "-I", "causal_bundle", "-o", "main", "-lm",
                     "-ldl")
        done = run(self.program, env={"LD_LIBRARY_PATH": DRIVER})
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stdout, r"^sm_90: the largest error is ")

    def test_without_a_driver(self):
        if has_gpu():
            self.skipTest("there is one")
        done = run(self.program)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^error: a GPU needs NVIDIA's driver, which cannot be opened: ")


if __name__ == "__main__":
    TESELA, DRIVER = os.path.abspath(sys.argv.pop(1)), os.path.abspath(sys.argv.pop(1))
    unittest.main()
