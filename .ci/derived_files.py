"""Generates files of the product from the product's own code."""

from __future__ import annotations

import ast
import base64
import hashlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from telemetry_daemon.plugins.built_in import describe
from telemetry_daemon.processes.targets import load_target
from telemetry_daemon.site.page_files import script, style
from telemetry_parsers.codec.captures import DescribedParser
from telemetry_parsers.codec.derived import to_plain

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_CHECKOUT = Path(__file__).resolve().parent.parent
_FOLDERS = (
    "parsers/telemetry_parsers",
    "daemon/telemetry_daemon/readers",
    "daemon/telemetry_profile/facts",
    "daemon/telemetry_profile/formats",
)
# `GpuClock` counts as two words.
_WORD = re.compile(r"[A-Z]?[a-z]{2,}|[A-Z]{3,}(?![a-z])|[^\W\d_]{3,}")


def parser_descriptions() -> str:
    """Return plugins/built_in.json: the descriptions of the parsers, which the daemon reads instead of importing them."""
    entry_points = tomllib.loads((_CHECKOUT / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]
    targets = entry_points["telemetry.parsers"].values()
    lines = [json.dumps(to_plain(DescribedParser, describe(load_target(target)))) for target in sorted(targets)]
    return "[\n" + ",\n".join(lines) + "\n]\n"


def page_hashes() -> str:
    """Return site/page_files.py: the hashes of the page's script and style for the Content-Security-Policy."""
    return f'_SCRIPT_HASH = "{_hash(script())}"\n_STYLE_HASH = "{_hash(style())}"\n'


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def tool_words() -> str:
    """Return masking/tool_words.txt: the words that parsers, formats and readers expect in outputs of tools and libraries."""
    texts = [text for folder in _FOLDERS for path in (_CHECKOUT / folder).rglob("*.py") for text in _strings(path)]
    return "".join(f"{word}\n" for word in sorted({word.lower() for text in texts for word in _WORD.findall(text)}))


def _strings(path: Path) -> Iterator[str]:
    """Yield the string constants of a module without its docstrings."""
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    docstring_ids = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstring_ids:
            yield node.value
