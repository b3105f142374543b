"""The words of the outputs of tools and profilers and of the libraries' calls, as the tables of parsers and formats and the readers have them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
_FOLDERS = (
    "parsers/telemetry_parsers",
    "daemon/telemetry_daemon/readers",
    "daemon/telemetry_profile/facts",
    "daemon/telemetry_profile/formats",
)
# `GpuClock` are two words.
_WORD = re.compile(r"[A-Z]?[a-z]{2,}|[A-Z]{3,}(?![a-z])|[^\W\d_]{3,}")


def tool_words() -> str:
    """All these words, a line each."""
    texts = [text for folder in _FOLDERS for path in (_ROOT / folder).rglob("*.py") for text in _constants(path)]
    return "".join(f"{word}\n" for word in sorted({word.lower() for text in texts for word in _WORD.findall(text)}))


def _constants(path: Path) -> Iterator[str]:
    """The texts in a module other than its documentation."""
    tree = ast.parse(path.read_text("utf-8"))
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.value
