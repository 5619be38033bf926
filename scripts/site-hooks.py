# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# mkdocs hooks of scripts/site: they add generated pages, and rewrite links to files outside of docs.

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages that mlir-tblgen made in build/dialects."""
    for path in sorted((ROOT / "build/dialects").glob("*.md")):
        text = path.read_text(encoding="utf-8")
        files.append(File.generated(config, f"dialects/{path.name}", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Replaces a link to a file outside of docs by the file's name, because the site has no such files."""
    folder = Path(page.file.src_path).parent

    def named(match: re.Match[str]) -> str:
        text, target = match[1], match[2].partition("#")[0]
        path = os.path.normpath(Path("docs") / folder / target)
        if not target or ":" in target or path.startswith("docs" + os.sep):
            return match[0]
        if page.file.generated_by is None and not (ROOT / path).exists():
            return match[0]  # mkdocs reports this link
        return text if path in text else f"{text} (`{path}`)"

    # Links in code and pictures stay. Words after a code block's language are only for tests and are removed.
    parts = re.split(r"(^```.*?^```)", markdown, flags=re.MULTILINE | re.DOTALL)
    for index in range(0, len(parts), 2):
        parts[index] = re.sub(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)", named, parts[index])
    return re.sub(r"^```(\w+) .*$", r"```\1", "".join(parts), flags=re.MULTILINE)
