"""The manual page: well-formed, and it has every command, option, exit status, variable and file."""

from __future__ import annotations

import re
import subprocess

import pytest

from kits.captures import ROOT
from telemetry_daemon import cli
from telemetry_daemon.config.inputs import DEFAULT_FILE
from telemetry_daemon.config.table import settings_rows
from telemetry_daemon.terminal import exits

PAGE = ROOT / "deploy" / "man" / "telemetry.1"


@pytest.mark.needs("mandoc")
def test_the_page_is_without_blame() -> None:
    done = subprocess.run(["mandoc", "-T", "lint", "-W", "style", str(PAGE)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.fixture(scope="module")
def sections() -> dict[str, str]:
    """What a reader sees, by section, with single blanks."""
    done = subprocess.run(
        ["mandoc", "-T", "ascii", "-O", "width=500", str(PAGE)], capture_output=True, text=True, check=True
    )
    plain = re.sub(r".\x08", "", done.stdout)
    parts = re.split(r"^([A-Z][A-Z ]+)$", plain, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.needs("mandoc")
def test_every_option_that_a_command_tells_of_is_in_its_part(sections: dict[str, str]) -> None:
    parts = re.split(r"^ {3}([a-z]+)$", sections["COMMANDS"], flags=re.MULTILINE)[1:]
    told = dict(zip(parts[::2], parts[1::2], strict=True))
    assert list(told) == [name for name, _ in cli.COMMANDS]
    for name, part in told.items():
        options = set(re.findall(r"^ +(?:-h, )?(--?[a-z][a-z.-]*)", cli.build_parser(name).format_help(), re.MULTILINE))
        assert options - {"--help"} == set(re.findall(r"^ {7}(--?[a-z][a-z.-]*)", part, re.MULTILINE))


@pytest.mark.needs("mandoc")
def test_every_exit_status_and_variable_is_told(sections: dict[str, str]) -> None:
    statuses = {str(value) for name, value in vars(exits).items() if name.isupper() and isinstance(value, int)}
    assert set(re.findall(r"^ {7}(\d+) ", sections["EXIT STATUS"], re.MULTILINE)) == statuses
    assert {row.variable for row in settings_rows() if row.variable} <= set(sections["ENVIRONMENT"].split())
    assert DEFAULT_FILE in sections["FILES"]
    assert all(name in sections["SIGNALS"] for name in ("SIGHUP", "SIGTERM", "SIGINT"))
