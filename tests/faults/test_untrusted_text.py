"""No text of a tool, plugin or client can steer a terminal, break a line or reverse text in our outputs."""

import json
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings

from kits import snapshots as kit
from kits.command_line import run_main
from kits.tool_node import TOOL, series, tool_node
from telemetry_daemon.site.page_files import script
from telemetry_daemon.site.pages import Links, page
from telemetry_exporters.documents import snapshot_csv
from telemetry_exporters.documents import snapshot_json as json_form
from telemetry_exporters.prometheus import renderer
from telemetry_exporters.terminal.style import Colour
from telemetry_exporters.terminal.table import Detail, table
from telemetry_parsers.model import Snapshot

pytestmark = pytest.mark.installed

LINKS = Links("/metrics", "/api/v1/snapshot", "/api/v1/history", "/healthz", "/readyz")
# Every C0 and C1 control, and characters that reverse, join, hide, or end a line for some readers.
EVIL = (
    "".join(map(chr, (*range(1, 32), *range(127, 160))))
    + "\u2028\u2029\u202a\u202e\u2066\u2069\u200b\u200f\ufeff\U000e0041"
)

FORMS: dict[str, Callable[[Snapshot], str]] = {
    "text": lambda snapshot: renderer.text_page(snapshot).decode(),
    "OpenMetrics": lambda snapshot: kit.openmetrics_page(snapshot).decode(),
    "JSON": json_form.render,
    "CSV": lambda snapshot: snapshot_csv.render(snapshot).replace("\r\n", "\n"),  # RFC 4180 ends lines so
    "page": lambda snapshot: page(snapshot, LINKS),
    "table": lambda snapshot: table(snapshot, 0, Colour.NEVER),
    "details": lambda snapshot: table(snapshot, 0, Colour.NEVER, Detail.EVERYTHING),
    "narrow table": lambda snapshot: table(snapshot, 40, Colour.NEVER, Detail.EVERYTHING),
}


def unsafe(text: str) -> list[str]:
    kinds = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return sorted({f"U+{ord(sign):04X}" for sign in text if sign != "\n" and unicodedata.category(sign) in kinds})


@pytest.mark.parametrize("examples", [10, pytest.param(100, marks=pytest.mark.long)])
def test_no_form_of_any_snapshot_holds_a_control_sequence(examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(kit.snapshots())
    def check(snapshot: Snapshot) -> None:
        assert {name: found for name, form in FORMS.items() if (found := unsafe(form(snapshot)))} == {}

    check()


PLUGIN = f"""
from telemetry_parsers.contract import SourceParser
from telemetry_parsers.model import Device, Files, Poll, Problem, Process, Reading, Report

EVIL = {EVIL!r} + "<script>alert(1)</script>\\x1b[31m"

def parse(capture):
    return Report(
        devices=(Device("acme", 0, model=f"A{{EVIL}}B", uuid="ACME-1", serial=f"1{{EVIL}}", driver=EVIL),),
        readings=(Reading(0, "power_watts", 80.0),),
        processes=(Process(0, 7, EVIL, 1024.0),),
        problems=(Problem(f"card{{EVIL}}", f"odd{{EVIL}}"),),
        facts=(("tool_version", f"1.0{{EVIL}}"),),
        unknown_fields=(f"new{{EVIL}}",),
    )

PARSER = SourceParser(
    name="acme-evil", vendor="acme", gives=("power_watts",),
    polls=(Poll("all", Files(("/*",)), interval=0.5),), parse=parse,
)
"""
ERROR = (
    f"Error{EVIL}: no driver \x1b]0;owned\x07 level=info msg=forged\n2026-01-01T00:00:00.000Z level=error msg=forged\n"
)


def test_hostile_texts_do_not_leave_the_daemon_or_a_command(tmp_path: Path) -> None:
    """A hostile plugin and a hostile tool, through every output and the log."""
    (tmp_path / "parsers").mkdir()
    (tmp_path / "parsers" / "acme.py").write_text(PLUGIN)
    prom = tmp_path / "telemetry.prom"
    more = f'[parsers]\npaths = ["{tmp_path}/parsers"]\n[export.textfile]\npath = "{prom}"\ninterval = 1\n'
    daemon, tools = tool_node(tmp_path, more)
    tools.prints(TOOL, "", stderr=ERROR, status=1)
    outputs: dict[str, str] = {}
    with daemon:
        daemon.until(lambda: series(daemon, "accelerator_info{"))
        daemon.until_state(TOOL, "failed")
        daemon.until(lambda: prom.exists() and "accelerator_info{" in prom.read_text())
        for path in ("/", "/?device=ACME-1", "/metrics", "/api/v1/snapshot", "/readyz", f"/no/such%1b%0a{'%E2%80%AE'}"):
            outputs[path] = daemon.get(path)[1]
        outputs["OpenMetrics"] = daemon.get("/metrics", Accept="application/openmetrics-text")[1]
        outputs["textfile"] = prom.read_text()
        outputs["log"] = "\n".join(daemon.lines)
        daemon.stop()
    for command in (["snapshot"], ["snapshot", "--format", "csv"], ["doctor"]):
        arguments = (*command, "--config", str(daemon.config_path), "--source", "acme-evil", "--source", TOOL)
        status, out, error = run_main(*arguments, environment=daemon.environment)
        assert (status, "acme" in out) == (2, True)
        outputs[" ".join(command)] = (out + error).replace("\r\n", "\n")
    assert {name: unsafe(text) for name, text in outputs.items() if unsafe(text)} == {}
    assert "odd" in outputs["log"]
    assert not [line for line in outputs["log"].splitlines() if "level=error msg=forged" in line.partition('"')[0]]
    assert outputs["/"].count("<script") == outputs["/"].count(f"<script>{script()}</script>") == 1
    assert "<script" not in outputs["/?device=ACME-1"]
    json.loads(outputs["/api/v1/snapshot"])


def test_errors_that_quote_what_they_were_given_are_safe(tmp_path: Path) -> None:
    saved, config = tmp_path / f"saved{EVIL}", tmp_path / "telemetry.toml"
    saved.write_text(json.dumps({"card0": {"Card Series": f"Z100{EVIL}", f"Odd{EVIL}": EVIL}}, ensure_ascii=False))
    config.write_text(f'[web]\n"listen{EVIL[8:9]}\u202e" = 1\n', encoding="utf-8")
    for arguments in (
        ("parse", "hy-smi", str(saved), "--format", "table"),
        ("parse", "hy-smi", f"{saved}2"),
        ("parse", f"hy{EVIL}smi", str(saved)),
        (f"sn{EVIL}apshot",),
        ("config", "check", "--config", str(config)),
        ("snapshot", f"--no-such{EVIL}"),
    ):
        _, out, error = run_main(*arguments)
        assert (unsafe(out + error), bool(out + error)) == ([], True), arguments
