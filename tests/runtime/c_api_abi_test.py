# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Tests the C API's headers and its binary interface: `c_api_abi_test.py CC CXX [--write]`.
#
# c_api_abi.txt has every size, offset, number and prototype as a compiler sees them. A program must
# run with every later library of the same major version. So --write adds what is new, and refuses
# changes that would break older programs.

import os
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
INCLUDE = os.path.normpath(os.path.join(HERE, "..", "..", "runtime", "include"))
FROZEN = os.path.join(HERE, "c_api_abi.txt")
CC = CXX = ""
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-pedantic"]


def headers():
    """The C API's headers, by the names with which they are included."""
    names = sorted(os.listdir(os.path.join(INCLUDE, "tesela", "c")))
    return ["tesela/tesela.h"] + ["tesela/c/" + name for name in names if name.endswith(".h")]


def declarations():
    """The text of all headers without comments and preprocessor lines, and their #defines of numbers."""
    text, macros = "", []
    for header in headers():
        with open(os.path.join(INCLUDE, header), encoding="utf-8") as file:
            source = re.sub(r"/\*.*?\*/", " ", file.read(), flags=re.S).replace("\\\n", " ")
        macros += re.findall(r"^#define (TESELA_(?!VERSION_)\w+) (?:\d|\()", source, flags=re.M)
        source = re.sub(r"#ifdef __cplusplus.*?#endif", " ", source, flags=re.S)
        text += re.sub(r"^#.*$", " ", source, flags=re.M)
    return text, macros


def normal(text):
    """The text with one space between words and none after an opening bracket."""
    return re.sub(r"\( ", "(", re.sub(r"\s+", " ", text)).strip()


def fields(body):
    """The names and types in the body of a structure."""
    found = []
    for declaration in filter(str.strip, body.split(";")):
        pointer = re.search(r"\(\*(\w+)\)", declaration)
        if pointer:
            name = pointer.group(1)
            found.append((name, normal(declaration.replace(f"*{name})", "*)"))))
            continue
        first, *others = declaration.split(",")
        kind, name, array = re.fullmatch(r"(.*?)(\w+)\s*(\[\w+\])?", normal(first)).groups()
        found.append((name, normal(kind) + (array or "")))
        found += [(other.strip(), normal(kind)) for other in others]
    return found


def without_names(prototype):
    """Removes the names of parameters: only their types are part of the interface."""
    head, parameters = re.fullmatch(r"(.*?\w)\((.*)\)", prototype).groups()
    types = [re.sub(r"(?<=[ *])\w+$", "", parameter.strip()).strip()
             for parameter in parameters.split(",")]
    return f"{head}({', '.join(types)})"


def prototypes(text):
    """One line for each function and each type of functions."""
    functions = re.findall(r"TESELA_API\s+([^;{}]+);", text)
    types = re.findall(r"typedef ([^;{}]*\(\*\w+\)[^;{}]*);", text)
    return (sorted("function " + without_names(normal(function)) for function in functions)
            + sorted("callback " + normal(each) for each in types))


def compile_and_run(program):
    with tempfile.TemporaryDirectory() as folder:
        source, binary = os.path.join(folder, "abi.c"), os.path.join(folder, "abi")
        with open(source, "w", encoding="utf-8") as file:
            file.write(program)
        subprocess.run([CC, "-std=c11", *WARNINGS, "-I", INCLUDE, source, "-o", binary], check=True)
        return subprocess.run([binary], check=True, capture_output=True, text=True).stdout


def interface():
    """{entity: lines}, such as {"struct tesela_view 32": ["data 0 8 void *", ...]}."""
    text, macros = declarations()
    structures = re.findall(r"typedef struct (\w+) \{(.*?)\} \1;", text, flags=re.S)
    enumerations = re.findall(r"typedef enum (\w+) TESELA_AS_INT \{(.*?)\} \1;", text, flags=re.S)
    assert len(enumerations) == text.count("typedef enum"), "an enumeration without TESELA_AS_INT"
    assert len(structures) == text.count("struct tesela") - len(
        re.findall(r"typedef struct (\w+) \1;", text)), "a structure was not understood"
    lines = []
    for name in macros:
        lines.append(f'printf("macro {name} %d\\n", (int){name});')
    for name, body in enumerations:
        lines.append(f'printf("enum {name} %zu\\n", sizeof({name}));')
        for value in re.findall(r"(\w+)\s*=", body):
            lines.append(f'printf("  {value} %d\\n", (int){value});')
    for name, body in structures:
        lines.append(f'printf("struct {name} %zu\\n", sizeof({name}));')
        for field, kind in fields(body):
            lines.append(f'printf("  {field} %zu %zu {kind}\\n", offsetof({name}, {field}), '
                         f"sizeof((({name} *)0)->{field}));")
    program = ("#include <stdio.h>\n#include <stddef.h>\n#include <tesela/tesela.h>\n"
               "int main(void) {\n" + "\n".join(lines) + "\nreturn 0;\n}\n")
    return parse(compile_and_run(program) +
                 "".join(line + "\n" for line in prototypes(text)))


def parse(text):
    entities, current = {}, None
    for line in text.splitlines():
        if line.startswith("  "):
            current.append(line.strip())
        elif line and not line.startswith("#"):
            current = entities.setdefault(line, [])
    return entities


def frozen():
    with open(FROZEN, encoding="utf-8") as file:
        return parse(file.read())


def render(entities):
    text = "# The binary interface of the C API on 64-bit Linux: c_api_abi_test.py holds it.\n"
    for entity, members in entities.items():
        text += entity + "\n" + "".join(f"  {member}\n" for member in members)
    return text


def by_name(entities):
    """{("struct", name): (size, members)}."""
    result = {}
    for entity, members in entities.items():
        kind, rest = entity.split(" ", 1)
        if kind == "function":
            result[kind, re.search(r"(\w+)\(", rest).group(1)] = (rest, members)
        elif kind == "callback":
            result[kind, re.search(r"\(\*(\w+)\)", rest).group(1)] = (rest, members)
        else:
            result[kind, rest.split()[0]] = (rest.split()[1], members)
    return result


def breaks(old, new):
    """The reasons why a program that was built with `old` would not run with `new`."""
    reasons = []
    new = by_name(new)
    for (kind, name), (size, members) in by_name(old).items():
        if (kind, name) not in new:
            reasons.append(f"{kind} {name} is gone")
            continue
        new_size, new_members = new[kind, name]
        if kind in ("callback", "function", "macro"):
            if size != new_size:
                reasons.append(f"{kind} {name} was {size}, is {new_size}")
            continue
        missing = [member for member in members if member not in new_members]
        if missing:
            reasons.append(f"{kind} {name} no longer has {', '.join(missing)}")
        sized = members[:1] == ["size 0 8 size_t"]
        if kind == "struct" and not sized and (size, members) != (new_size, new_members):
            reasons.append(f"struct {name} has no size and may not change")
        if kind == "struct" and sized and int(new_size) < int(size):
            reasons.append(f"struct {name} became shorter")
        if kind == "enum" and size != new_size:
            reasons.append(f"enum {name} has another size")
    return reasons


class Interface(unittest.TestCase):
    def test_programs_of_before_still_run(self):
        self.assertEqual(breaks(frozen(), interface()), [])

    def test_all_is_written_down(self):
        self.assertEqual(render(interface()), render(frozen()),
                         "new in the C API: c_api_abi_test.py CC CXX --write")

    def test_a_break_is_seen(self):
        sized = {"struct a 24": ["size 0 8 size_t", "x 8 4 int", "y 16 8 double"],
                 "enum e 4": ["A 0", "B 1"], "struct plain 8": ["x 0 8 long"],
                 "function int f(int)": [], "macro M 8": []}

        def changed(before, after):
            text = render(sized).replace(before, after)
            self.assertNotEqual(text, render(sized))
            return breaks(sized, parse(text))

        self.assertEqual(breaks(sized, sized), [])
        self.assertEqual(changed("struct a 24", "struct a 32"), [])
        self.assertEqual(changed("  y 16 8 double", "  y 16 8 double\n  z 24 8 long"), [])
        self.assertEqual(changed("  B 1", "  B 1\n  C 2"), [])
        for before, after in [
            ("struct a 24", "struct a 16"),
            ("  x 8 4 int\n  y 16 8 double", "  y 8 8 double\n  x 16 4 int"),
            ("  x 8 4 int\n", ""),
            ("x 8 4 int", "x 8 4 float"),
            ("A 0", "A 2"),
            ("f(int)", "f(long)"),
            ("macro M 8", "macro M 9"),
            ("struct plain 8", "struct plain 16"),
            ("enum e 4", "enum e 8"),
            ("function int f(int)\n", ""),
        ]:
            self.assertEqual(len(changed(before, after)), 1, (before, after))


class Header(unittest.TestCase):
    def check(self, compiler, language, standard, lines):
        source = "".join(line + "\n" for line in lines)
        done = subprocess.run(
            [compiler, "-x", language, f"-std={standard}", *WARNINGS, "-fsyntax-only",
             "-I", INCLUDE, "-I", HERE, "-"], input=source, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""), f"{standard}:\n{source}")

    def each_standard(self, lines):
        for standard in ("c99", "c11", "c17"):
            self.check(CC, "c", standard, lines)
        for standard in ("c++11", "c++17", "c++20"):
            self.check(CXX, "c++", standard, lines)

    def test_each_header_alone(self):
        for header in headers():
            self.each_standard([f"#include <{header}>"])

    def test_beside_dlpack(self):
        """dlpack.h included before and after; the functions take its types."""
        use = ["tesela_code view_of(const DLManagedTensor *a, const DLManagedTensorVersioned *b,",
               "                    const DLTensor *c, tesela_tensor *to);",
               "tesela_code view_of(const DLManagedTensor *a, const DLManagedTensorVersioned *b,",
               "                    const DLTensor *c, tesela_tensor *to) {",
               "  if (a) return tesela_tensor_from_dl_managed_tensor(a, to);",
               "  if (b) return tesela_tensor_from_dl_managed_tensor_versioned(b, to);",
               "  return tesela_tensor_from_dl_tensor(c, to);",
               "}"]
        includes = ["#include <tesela/tesela.h>", '#include "DLPack.h"']
        self.each_standard(includes + use)
        self.each_standard(includes[::-1] + use)


if __name__ == "__main__":
    CC, CXX = sys.argv.pop(1), sys.argv.pop(1)
    if sys.argv[1:] == ["--write"]:
        now = interface()
        broken = breaks(frozen(), now) if os.path.exists(FROZEN) else []
        if broken:
            sys.exit("programs that exist would break: " + "; ".join(broken))
        with open(FROZEN, "w", encoding="utf-8") as frozen_file:
            frozen_file.write(render(now))
    else:
        unittest.main()
