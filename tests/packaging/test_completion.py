"""Completion in real shells (commands, options, values, sources, files), and the manual page."""

import re
import subprocess
from pathlib import Path

import pytest

from kits.captures import ROOT
from kits.interactive_shell import what_ran
from telemetry_daemon import cli
from telemetry_daemon.config.inputs import DEFAULT_FILE
from telemetry_daemon.config.table import settings_rows
from telemetry_daemon.terminal import exits

FOLDER = ROOT / "daemon" / "telemetry_daemon" / "completion"
SOURCES = {"mthreads-gmi", "rocm-smi", "nvml", "npu-smi", "host"}

# The command line so far, the completions of the last word, and whether there are more.
OFFERED = [
    ("", {"serve", "snapshot", "parse", "record", "doctor", "config", "version"}, "more"),
    ("-", {"-h", "--help", "--version"}, "all"),
    ("--", {"--help", "--version"}, "all"),
    ("parse ", SOURCES, "more"),
    ("parse mth", {"mthreads-gmi"}, "all"),
    ("parse nvml ", {"saved.txt", "other", "saved-too.txt"}, "all"),
    ("parse --format=json nvml saved.", {"saved.txt"}, "all"),
    ("snapshot --format=js", {"json"}, "all"),
    ("snapshot --source nv", {"nvml"}, "all"),
    ("snapshot ", {"--format", "--all", "--watch"}, "more"),
    ("snapshot --device ", set(), "all"),
    ("serve --demo 8xn", {"8xnvidia"}, "all"),
    ("serve --web.config.file s", {"saved.txt", "saved-too.txt"}, "all"),
    ("config ", {"check", "show", "default", "peaks"}, "all"),
    ("release --for 10m nv", {"nvml"}, "all"),
]
TYPED = [
    ("pars\tmthr\t", "parse mthreads-gmi"),
    ("sn\t--al\t", "snapshot --all"),
    ("config ch\t", "config check"),
    ("snapshot --vendor=nv\t", "snapshot --vendor=nvidia"),
    ("parse nvml oth\tmo\t", "parse nvml other/more.txt"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "other").mkdir()
    for name in ("saved.txt", "saved-too.txt", "other/more.txt"):
        (tmp_path / name).touch()
    return tmp_path


def bash_offers(line: str, folder: Path) -> set[str]:
    """Return what the function that `complete -F` names puts into COMPREPLY."""
    # As readline splits them, the last one unfinished: an equals sign is a separate word.
    words = ["telemetry", *line.replace("=", " = ").removesuffix(" " if line.endswith("=") else "").split(" ")]
    script = (
        '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); complete -p telemetry | grep -q -- "-F _telemetry"'
        ' && _telemetry telemetry "${@: -1}" "${@: -2:1}" && printf "%s\\n" "${COMPREPLY[@]}"'
    )
    command = ["bash", "-euc", script, "bash", str(FOLDER / "telemetry.bash"), *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize(("line", "offered", "more"), OFFERED)
def test_bash_completes_commands(folder: Path, line: str, offered: set[str], more: str) -> None:
    found = bash_offers(line, folder)
    assert offered <= found
    assert more == "more" or found == offered


@pytest.mark.parametrize(
    ("shell", "preparation"),
    [
        pytest.param(
            ["bash", "--norc", "--noprofile", "-i"],
            f'. "{FOLDER}/telemetry.bash"',
            id="bash",
            marks=pytest.mark.needs("bash"),
        ),
        pytest.param(
            ["zsh", "-f", "-i"],
            f'fpath=("{FOLDER}" $fpath); autoload -Uz compinit; compinit -u -D',
            id="zsh",
            marks=pytest.mark.needs("zsh"),
        ),
    ],
)
def test_the_tab_key_of_a_real_shell(folder: Path, shell: list[str], preparation: str) -> None:
    assert what_ran(shell, preparation, [line for line, _ in TYPED], folder) == [ran for _, ran in TYPED]


@pytest.mark.needs("fish")
def test_fish_completes_commands(folder: Path) -> None:
    lines = ["parse mth", "snapshot --form", "snapshot --format ", "parse nvml save"]
    script = f'source "{FOLDER}/telemetry.fish"; ' + "; ".join(
        f"complete -C 'telemetry {line}'; echo" for line in lines
    )
    done = subprocess.run(
        ["fish", "--no-config", "-c", script],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder)},
        capture_output=True,
        text=True,
    )
    found = [{line.split("\t")[0] for line in part.splitlines()} for part in done.stdout.split("\n\n") if part.strip()]
    assert found == [
        {"mthreads-gmi"},
        {"--format"},
        {"csv", "json", "prometheus", "table"},
        {"saved.txt", "saved-too.txt"},
    ], done.stderr


PAGE = ROOT / "deploy" / "man" / "telemetry.1"


@pytest.mark.needs("mandoc")
def test_man_page_passes_the_lint() -> None:
    done = subprocess.run(["mandoc", "-T", "lint", "-W", "style", str(PAGE)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.fixture(scope="module")
def sections() -> dict[str, str]:
    done = subprocess.run(
        ["mandoc", "-T", "ascii", "-O", "width=500", str(PAGE)], capture_output=True, text=True, check=True
    )
    plain = re.sub(r".\x08", "", done.stdout)
    parts = re.split(r"^([A-Z][A-Z ]+)$", plain, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.needs("mandoc")
def test_man_page_has_every_option_of_each_command(sections: dict[str, str]) -> None:
    parts = re.split(r"^ {3}([a-z]+)$", sections["COMMANDS"], flags=re.MULTILINE)[1:]
    parts_by_name = dict(zip(parts[::2], parts[1::2], strict=True))
    assert list(parts_by_name) == [name for name, _ in cli.COMMANDS]
    for name, part in parts_by_name.items():
        options = set(re.findall(r"^ +(?:-h, )?(--?[a-z][a-z.-]*)", cli.build_parser(name).format_help(), re.MULTILINE))
        assert options - {"--help"} == set(re.findall(r"^ {7}(--?[a-z][a-z.-]*)", part, re.MULTILINE))


@pytest.mark.needs("mandoc")
def test_man_page_has_every_exit_status_and_variable(sections: dict[str, str]) -> None:
    statuses = {str(value) for name, value in vars(exits).items() if name.isupper() and isinstance(value, int)}
    assert set(re.findall(r"^ {7}(\d+) ", sections["EXIT STATUS"], re.MULTILINE)) == statuses
    assert {row.variable for row in settings_rows() if row.variable} <= set(sections["ENVIRONMENT"].split())
    assert DEFAULT_FILE in sections["FILES"]
    assert all(name in sections["SIGNALS"] for name in ("SIGHUP", "SIGTERM", "SIGINT"))
