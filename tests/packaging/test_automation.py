"""The project's automation: its rules find violations, generated files are current, versions are pinned."""

import re
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from kits.captures import ROOT
from kits.scripts import script_module

PYTHONS = ("3.10", "3.11", "3.12", "3.13")
PIN = re.compile(r"[A-Za-z0-9_.-]+==(?:[0-9]+!)?[0-9][A-Za-z0-9.]*(; python_version (<|>=) '3\.[0-9]+')?")


checks = script_module("checks")


def generate(*arguments: str | Path) -> tuple[int, str]:
    command = [sys.executable, str(ROOT / ".ci/generate.py"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("daemon/telemetry_daemon/long.py", "x = 1\n" * 401, ":1: 401 lines, at most 400; split the module"),
        ("parsers/p/f.py", "def f():\n" + "    x = 1\n" * 60, ":1: f has 61 lines, at most 60"),
        ("daemon/__init__.py", "", ":1: a source root must not be a package; remove the file"),
        ("tools/x.py", "", ":1: tools/ is not among the top-level folders"),
        ("docs/a.md", "see https://" + "pypi" + ".org/x", "pypi" + ".org is specific to a machine or registry"),
        ("deploy/b.sh", "\ncd /" + "work/main", ":2: /work" + "/main is specific to a machine or registry"),
        ("tests/t.py", "import x  # no" + "qa: F401\n", ":1: add the reason after the disabled check"),
        (
            "tests/t.py",
            "with suppress" + "(OSError):\n    x()\n",
            ":1: add a comment that says why the error may be ignored",
        ),
        (
            "tests/t.py",
            "try:\n    x()\nexcept OSError:\n    pass\n",
            ":4: add a comment that says why the error may be ignored",
        ),
        ("deploy/t", "#!/bin/sh\n\n\nx || " + "true\n", ":4: add a comment that says why the error may be ignored"),
        ("daemon/telemetry_daemon/long.py", "x = 1\n" * 400, ""),
        ("parsers/p/f.py", "def f():\n" + "    x = 1\n" * 59, ""),
        ("docs/a.md", "/home/you, /var/lib, a/work/b and python.org\n", ""),
        ("tests/t.py", "x = y  # type: " + "ignore[arg-type]  # for a reason\n", ""),
    ],
)
def test_a_broken_rule_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, complaint: str
) -> None:
    planted(tmp_path, name, text)
    status = checks.main([str(tmp_path)])
    shown = capsys.readouterr().out
    assert status == (1 if complaint else 0)
    assert shown.count("\n") == 1
    assert f"{name}:" in shown if complaint else shown == "1 files keep the project's rules\n"
    assert complaint in shown


def test_old_words_and_long_subjects_of_new_commits_are_named(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        identity = ("-c", "user.name=n", "-c", "user.email=n@example.com")
        command = ("git", "-C", str(tmp_path), *identity, *arguments)
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()

    def commit(text: str, subject: str) -> str:
        planted(tmp_path, "docs/a.md", text)
        git("add", ".")
        git("commit", "--quiet", "-m", subject)
        return git("rev-parse", "HEAD")

    git("init", "--quiet")
    base = commit("it is t" + "old\n", "x" * 80)
    fine = commit("it is t" + 'old\nthe owner `nobody`, "nobody"\n', "Add an owner")
    commit("it is t" + "old\nthe owner\n\nmade A" + "new\n", "y" * 73)
    assert [*checks.old_words(f"{base}..{fine}", tmp_path), *checks.long_subjects(f"{base}..{fine}", tmp_path)] == []
    assert list(checks.old_words(f"{fine}..HEAD", tmp_path)) == [
        "docs/a.md:4: write again, rebuilt or reset instead of 'A" + "new'"
    ]
    assert [line.partition(":")[0] for line in checks.long_subjects(f"{fine}..HEAD", tmp_path)] == [
        f"commit '{'y' * 73}'"
    ]


def planted(folder: Path, name: str, text: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def test_generated_files_are_current() -> None:
    assert generate("--check") == (0, "")


def test_every_line_of_the_constraints_is_a_pin_without_an_address() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert [line for line in lines if not PIN.fullmatch(line)] == []
    assert len(lines) > 20


@pytest.mark.parametrize("python", PYTHONS)
def test_each_dependency_is_pinned_once_and_within_its_range(python: str) -> None:
    environments = [{"python_version": python, "extra": extra} for extra in ("", "dev")]
    pins: dict[str, str] = {}
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        pin = Requirement(line)
        if pin.marker is None or pin.marker.evaluate(environments[0]):
            assert canonicalize_name(pin.name) not in pins, f"{pin.name} is pinned twice"
            pins[canonicalize_name(pin.name)] = str(pin.specifier).removeprefix("==")
    needed = [
        wanted
        for wanted in map(Requirement, requires("device-telemetry") or ())
        if wanted.marker is None or any(wanted.marker.evaluate(environment) for environment in environments)
    ]
    assert len(needed) > 15
    for wanted in needed:
        assert pins[canonicalize_name(wanted.name)] in wanted.specifier


@pytest.mark.needs("make")
def test_the_long_tests_are_all_run() -> None:
    """Pytest does not collect files with these names by itself."""
    line = ["make", "--no-print-directory", "-n", "test-long"]
    commands = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = {word for word in commands.partition(" -m pytest ")[2].split() if word.startswith("tests/")}
    assert files == {str(file.relative_to(ROOT)) for file in (ROOT / "tests").rglob("long_*.py")}


def shell_of(file: Path) -> str:
    with file.open("rb") as stream:
        found = re.match(rb"#!.*?\b(ba|da|)sh\b", stream.readline())
    return f"{found[1].decode()}sh" if found else ""


FILES = [file for name in (".ci", "deploy", "tests/systemd", "tests/packaging") for file in (ROOT / name).rglob("*")]
# Parallel tests create and delete bytecode.
SHELL_SCRIPTS = sorted(file for file in FILES if "__pycache__" not in file.parts and file.is_file() and shell_of(file))


def test_scripts_are_well_formed() -> None:
    for file in (ROOT / ".ci").glob("*.py"):
        compile(file.read_text(), file.name, "exec")
    assert len(SHELL_SCRIPTS) > 20
    for file in SHELL_SCRIPTS:
        assert file.stat().st_mode & 0o111, f"{file} is not executable"
        assert subprocess.run([shell_of(file), "-n", str(file)]).returncode == 0


@pytest.mark.needs("shellcheck")
def test_scripts_that_are_delivered_have_no_known_pitfalls() -> None:
    delivered = [file for file in SHELL_SCRIPTS if file.is_relative_to(ROOT / "deploy")]
    systemd = [file for file in SHELL_SCRIPTS if file.is_relative_to(ROOT / "tests/systemd")]
    for options in (delivered + systemd, ["--shell=bash", ROOT / "daemon/telemetry_daemon/completion/telemetry.bash"]):
        done = subprocess.run(["shellcheck", *options], capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, "")
