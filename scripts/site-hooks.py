# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What scripts/site adds to the documents: generated pages, and links to files of the source tree.

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]


def on_files(files: Files, config: Any) -> Files:
    """The pages that mlir-tblgen has made in build/dialects."""
    for path in sorted((ROOT / "build/dialects").glob("*.md")):
        text = path.read_text(encoding="utf-8")
        files.append(File.generated(config, f"dialects/{path.name}", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """A link to a file outside of docs becomes the file's name: the site holds documents alone."""
    folder = Path(page.file.src_path).parent

    def named(match: re.Match[str]) -> str:
        text, target = match[1], match[2].partition("#")[0]
        path = os.path.normpath(Path("docs") / folder / target)
        if not target or ":" in target or path.startswith("docs" + os.sep):
            return match[0]
        if page.file.generated_by is None and not (ROOT / path).exists():
            return match[0]  # mkdocs says so
        return text if path in text else f"{text} (`{path}`)"

    # Pictures and code stay as they are. What a code block's first line says behind the language is for tests.
    parts = re.split(r"(^```.*?^```)", markdown, flags=re.MULTILINE | re.DOTALL)
    for index in range(0, len(parts), 2):
        parts[index] = re.sub(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)", named, parts[index])
    return re.sub(r"^```(\w+) .*$", r"```\1", "".join(parts), flags=re.MULTILINE)
