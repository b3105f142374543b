"""The captures that tests run on: our own with their golden files, and the shared ones."""

import functools
import json
import os
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypeVar

from telemetry_parsers.codec.captures import capture_from_plain, decode_line
from telemetry_parsers.codec.derived import to_plain
from telemetry_parsers.contract import Parser
from telemetry_parsers.model import Capture, Command, Output, Report

ROOT = Path(__file__).resolve().parents[2]
CAPTURES = ROOT / "tests" / "captures"
GOLDEN = ROOT / "tests" / "golden"
_END_OF_HEADER = "# ---\n"
_STDERR = "# --- stderr\n"
T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True)
class Case:
    tool: str
    name: str
    path: Path

    @property
    def id(self) -> str:
        return f"{self.tool}/{self.name}"

    @property
    def golden(self) -> Path:
        return GOLDEN / self.tool / f"{self.name}.json"

    @property
    def layout(self) -> str:
        """Return the tool and the first word of the file's name, which names the layout; data files are one layout."""
        return f"{self.tool}/{self.name.partition('-')[0]}" if self.path.suffix == ".txt" else self.tool

    def captures(self, parser: Parser) -> list[Capture]:
        """Return the file's captures; a file that names no poll is a capture of the parser's first poll."""
        text = self.path.read_bytes().decode()
        if self.path.suffix == ".jsonl":
            return [capture_from_plain(decode_line(line)) for line in text.splitlines() if line.strip()]
        return [text_capture(parser, parse_file(text))]


@functools.cache
def registered_parsers() -> dict[str, Parser]:
    found = [entry.load() for entry in entry_points(group="telemetry.parsers")]
    return {parser.name: parser for parser in found}


def command_parsers() -> dict[str, Parser]:
    found = registered_parsers().items()
    return {name: parser for name, parser in found if any(isinstance(poll.request, Command) for poll in parser.polls)}


def parse_file(text: str) -> Output:
    """Return the output in a capture file, without the header."""
    header, end, body = text.partition(_END_OF_HEADER)
    assert end, "a capture file begins with header lines up to '# ---'; see tests/captures/README.md"
    stdout, _, stderr = body.partition(_STDERR)
    statuses = [line.removeprefix("# status: ") for line in header.splitlines() if line.startswith("# status: ")]
    return Output(text=stdout, stderr=stderr, status=int(statuses[0]) if statuses else None)


def text_capture(parser: Parser, output: Output | str) -> Capture:
    """Return a capture of the parser's first poll with this output."""
    poll = parser.polls[0]
    output = Output(text=output) if isinstance(output, str) else output
    return Capture(parser.name, poll.name, poll.request, (output,))


@functools.cache
def own_cases(tool: str = "*") -> tuple[Case, ...]:
    files = sorted(path for path in CAPTURES.glob(f"{tool}/*") if path.suffix in (".txt", ".jsonl"))
    return tuple(Case(path.parent.name, path.stem, path) for path in files)


def of_each_layout(cases: Iterable[Case]) -> list[Case]:
    """Return the middle case of each layout."""
    alike: dict[str, list[Case]] = {}
    for case in cases:
        alike.setdefault(case.layout, []).append(case)
    return [found[len(found) // 2] for found in alike.values()]


def own_case(tool: str, name: str) -> Case:
    return next(case for case in own_cases(tool) if case.name == name)


def text_of(tool: str, name: str) -> str:
    return parse_file((CAPTURES / tool / f"{name}.txt").read_text()).text


def report_on(source: str, text: str, status: int | None = None) -> Report:
    parser = registered_parsers()[source]
    return parser.parse(text_capture(parser, Output(text=text, status=status)))


def golden_text(reports: list[Report]) -> str:
    """Format reports as golden files do: one line for each reading, device and problem."""
    return "".join(_report_text(to_plain(Report, report)) for report in reports)


def _report_text(plain: dict[str, Any]) -> str:
    lines = [f" {json.dumps(name)}: {_value_text(value)}" for name, value in plain.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _value_text(value: Any) -> str:
    if not isinstance(value, list) or not value:
        return json.dumps(value, ensure_ascii=False)
    items = ",\n".join("  " + json.dumps(item, ensure_ascii=False) for item in value)
    return f"[\n{items}\n ]"


def shared_folder() -> Path | None:
    """Return the folder of real outputs: `TELEMETRY_SHARED`, or beside the repository; None if it is missing."""
    roots = [Path(named) for named in (os.environ.get("TELEMETRY_SHARED"),) if named]
    folders = [root / "captures" for root in (*roots, ROOT.parent / "shared")]
    return next((folder for folder in folders if folder.is_dir()), None)


def shared_files(tool: str = "**") -> list[Path]:
    """Return the shared captures of a tool, or of all; empty if the folder is missing."""
    folder = shared_folder()
    return (
        []
        if folder is None
        else sorted(path for ending in ("txt", "out") for path in folder.glob(f"{tool}/*.{ending}"))
    )


def shared_text(path: Path) -> str:
    """Return a shared capture without its two header lines."""
    return path.read_bytes().decode().split("\n", 2)[2]


def in_ci() -> bool:
    return os.environ.get("CI", "").lower() in ("1", "true", "yes")
