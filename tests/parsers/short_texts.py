"""Short texts, and the expected report of each: the tables in `short/`, one for each source.

A blank line ends a case. `= ` describes the following cases, `| ` marks a line of the text, `! ` a line of standard error,
and `> ` a line of the expected report. `# ` and JSON begin an output with more facts, such as exit status and poll. With
`"capture"` the text is that of a capture, with `new` in place of `old` (and cut behind it if `ends` is set); the expected
lines are then those added to (`+`) or missing from (`-`) the report of the capture, unless the outcome is a failure.
"""

import json
import re
from collections import Counter
from dataclasses import fields
from pathlib import Path
from typing import Any

from kits.captures import own_case, parse_file, text_capture
from telemetry_parsers.contract import Parser
from telemetry_parsers.model import Absent, Capture, Output, Report

FOLDER = Path(__file__).parent / "short"
# Escaped characters of a line: those that an editor does not show, and the escape character.
_HIDDEN = re.compile(r"[\\\x00-\x09\x0b-\x1f\x7f\xa0\u2000-\u200f\ufeff]| (?=\n|\Z)")


def table_now(parser: Parser) -> str:
    blocks = (FOLDER / f"{parser.name}.txt").read_text(encoding="utf-8").rstrip("\n").split("\n\n")
    return "\n\n".join("\n".join(_block_now(parser, block.split("\n"))) for block in blocks) + "\n"


def _block_now(parser: Parser, lines: list[str]) -> list[str]:
    given = [line for line in lines if not line.startswith(">")]
    capture, base = _capture(parser, given)
    found = summary(parser.parse(capture))
    if base is not None and found[0].startswith("ok"):
        whole = summary(parser.parse(base))
        added, lost = Counter(found[1:]) - Counter(whole), Counter(whole[1:]) - Counter(found)
        found = [found[0], *(f"+ {line}" for line in added.elements()), *(f"- {line}" for line in lost.elements())]
    return [*given, *(f"> {line}" for line in found)]


def _capture(parser: Parser, lines: list[str]) -> tuple[Capture, Capture | None]:
    """Return the capture of a case, and the capture from which it was made."""
    poll, base, outputs = parser.polls[0], None, list[dict[str, Any]]()
    for sign, text in ((line[:2], line[2:]) for line in lines):
        if sign == "# ":
            about = json.loads(text)
            named = about.pop("poll", poll.name)
            poll = next(poll for poll in parser.polls if poll.name == named)
            if "capture" in about:
                whole = parse_file(own_case(parser.name, about.pop("capture")).path.read_text()).text
                base, old = text_capture(parser, whole), about.pop("old")
                assert whole.count(old) == 1, old
                before, _, behind = whole.partition(old)
                about["text"] = before + about.pop("new") + ("" if about.pop("ends", False) else behind)
            outputs.append(about)
        elif sign[:1] in ("|", "!"):
            outputs = outputs or [{}]
            name = "text" if sign[0] == "|" else "stderr"
            outputs[-1][name] = outputs[-1].get(name, "") + unescaped(text)
    return Capture(parser.name, poll.name, poll.request, tuple(Output(**output) for output in outputs)), base


def escaped(text: str) -> list[str]:
    *lines, last = _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text).split("\n")
    return [*lines, *([last + "\\"] if last else [])]


def unescaped(line: str) -> str:
    text = line.removesuffix("\\")
    return re.sub(r"\\u([0-9a-f]{4})", lambda found: chr(int(found[1], 16)), text) + ("\n" if text == line else "")


def summary(report: Report) -> list[str]:
    """Return the outcome and a line for each item of a report, without default values."""
    words = (report.outcome, report.reason or "", report.form, report.index_space, "cut" if report.is_cut else "")
    lines = [
        " ".join(filter(None, words)),
        *(f"{index} {_words(device)}" for index, device in enumerate(report.devices)),
    ]
    for item in report.readings:
        name = item.metric + (f"{{{item.label}}}" if item.label else "")
        value = item.value.value if isinstance(item.value, Absent) else item.value
        lines.append(f"{'node' if item.device is None else item.device} {name} {value}")
    things = (report.events, report.processes, report.problems, report.claims, report.tasks)
    lines += [_words(thing) for kind in things for thing in kind]
    lines += [f"unknown field: {name}" for name in report.unknown_fields]
    return [*lines, *(f"{name}: {value}" for name, value in report.facts)]


def _words(thing: Any) -> str:
    changed = {
        field.name: getattr(thing, field.name) for field in fields(thing) if getattr(thing, field.name) != field.default
    }
    return f"{type(thing).__name__}({', '.join(f'{name}={value!r}' for name, value in changed.items())})"
