"""The command reader on working tools: outputs, statuses, environment, targets, alternatives."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kits.command_reader import NO_TARGETS, poll, read, tool
from kits.fake_tools import ToolFolder
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.readers.tool_path import Tool
from telemetry_daemon.readers.tool_reader import CommandReader
from telemetry_daemon.readers.tool_results import CommandLineChooser
from telemetry_parsers.model import Capture, Command, Failure, Library, Output, Poll

TABLE = "GPU  Temp   Power\n0    41.0C  80.0W\n"
MakeReader = Callable[..., CommandReader]


def test_output_status_and_times_are_kept(reader: CommandReader, tools: ToolFolder) -> None:
    tools.prints("smi", TABLE, stderr="note\n")
    before = time.monotonic(), time.time()
    capture = read(reader, tool("smi", "-q", "all cards"))
    after = time.monotonic(), time.time()
    assert capture.outputs == (Output("smi -q 'all cards'", "", TABLE, "note\n", 0),)
    assert capture.failure is None
    assert (capture.source, capture.poll, capture.request) == ("fake", "readings", tool("smi", "-q", "all cards"))
    assert before[0] <= capture.monotonic_time <= capture.monotonic_time + capture.seconds <= after[0]
    assert before[1] <= capture.wall_time <= after[1]
    assert tools.calls("smi") == ["-q all cards"]


@pytest.mark.parametrize(
    ("stdout", "stderr", "status"),
    [(TABLE, "", 1), ("ERROR: the driver is not loaded\n", "", 0), ("", "usage: smi [-q]\n", 2), ("", "", 255)],
)
def test_any_exit_status_is_an_output(
    reader: CommandReader, tools: ToolFolder, stdout: str, stderr: str, status: int
) -> None:
    tools.prints("smi", stdout, stderr=stderr, status=status)
    capture = read(reader, tool("smi"))
    assert capture.outputs == (Output("smi", "", stdout, stderr, status),)
    assert capture.failure is None


def test_output_is_read_to_its_end(make_reader: MakeReader, tools: ToolFolder) -> None:
    reader = make_reader(limits=None)
    tools.prints("smi", b"41\xb0C \x00\xff\n")
    assert read(reader, tool("smi")).outputs[0].text == "41\ufffdC \x00\ufffd\n", "what is no text is replaced"
    tools.prints_slowly("smi", ["GPU\n", "Temp\n", "Power\n"], 0.05)
    assert read(reader, tool("smi")).outputs[0].text == "GPU\nTemp\nPower\n"
    text = "line of a long table\n" * 100_000
    tools.prints("smi", text, stderr=text)
    assert read(reader, tool("smi")).outputs == (Output("smi", "", text, text, 0),)


def test_tool_runs_in_the_c_locale_alone_in_its_session(make_reader: MakeReader, tools: ToolFolder) -> None:
    tools.script(
        "smi", 'echo "$LC_ALL $LANG ${NOTIFY_SOCKET-none} $WIDTH $HOME"; cat; pwd; cut -d " " -f 5,6 /proc/$$/stat'
    )
    ours = {**tools.environment, "LC_ALL": "de_DE", "LANG": "de_DE", "NOTIFY_SOCKET": "/run/x", "HOME": "/home/x"}
    request = Command((("smi",),), env=(("WIDTH", "200"),))
    text = read(make_reader(environment=ours), request).outputs[0].text
    pid = tools.pids("smi")[0]
    assert text.splitlines() == ["C C none 200 /home/x", "/", f"{pid} {pid}"]


def test_tool_gets_the_lock_and_no_other_descriptor(reader: CommandReader, tools: ToolFolder, tmp_path: Path) -> None:
    tools.script("smi", "for fd in /proc/$$/fd/*; do readlink $fd; done")
    leak = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(leak, True)
    try:
        held = read(reader, tool("smi")).outputs[0].text.splitlines()
    finally:
        os.close(leak)
    assert str(tmp_path) not in held
    assert held.count(str(tmp_path / "locks" / "smi.lock")) == 1
    assert held.count("/dev/null") == 1


def test_configured_path_is_used_and_path_is_not_searched(
    make_reader: MakeReader, tools: ToolFolder, tmp_path: Path
) -> None:
    other = ToolFolder(tmp_path / "opt")
    tools.prints("smi", "of PATH\n")
    path = other.prints("smi-7", "configured\n")
    capture = read(make_reader(path=str(path)), tool("smi", "-q"))
    assert capture.outputs == (Output("smi -q", "", "configured\n", "", 0),)


def test_the_vendors_folders_are_searched_after_path_the_newest_version_first(
    make_reader: MakeReader, tools: ToolFolder, tmp_path: Path
) -> None:
    for version in ("kit-24.04.3", "kit-25.10", "kit-25.04"):
        ToolFolder(tmp_path / version / "bin").prints("smi", f"of {version}\n")
    (tmp_path / "kit-26.04").mkdir()
    reader = make_reader()
    request = Command((("smi",),), folders=("/nowhere/bin", f"{tmp_path}/kit*/bin"))
    assert read(reader, request).outputs[0].text == "of kit-25.10\n"
    tools.prints("smi", "of PATH\n")
    assert read(reader, request).outputs[0].text == "of PATH\n"
    missing = read(reader, Command((("other",),), folders=(f"{tmp_path}/none*/bin",))).failure
    assert missing is not None
    assert missing.text.startswith(f"other was not found on PATH or in {tmp_path}/none*/bin;")


def test_a_tool_installed_later_is_found(reader: CommandReader, tools: ToolFolder) -> None:
    assert read(reader, tool("smi")).failure == Failure(
        "missing", None, "smi was not found on PATH; install it, or set sources.fake.path"
    )
    tools.prints("smi", TABLE)
    assert read(reader, tool("smi")).outputs[0].text == TABLE


@pytest.mark.parametrize(
    ("per", "targets", "named"),
    [
        ("card", Targets(cards=("0", "4"), devices=("9",)), ["0", "4"]),
        ("device", Targets(cards=("0", "4"), devices=("0:1", "it's")), ["0:1", "it's"]),
    ],
)
def test_a_repeated_command_runs_once_per_target(
    reader: CommandReader, tools: ToolFolder, per: str, targets: Targets, named: list[str]
) -> None:
    tools.script("smi", 'echo "asked for $2 {x}"')
    request = Command((("smi", "-i", "{" + per + "}", "{x}"),), per=per)  # type: ignore[arg-type]  # from the table
    capture = reader.read(poll(request), targets)
    assert [(output.target, output.text) for output in capture.outputs] == [
        (name, f"asked for {name} {{x}}\n") for name in named
    ]
    assert capture.outputs[0].name == "smi -i " + named[0] + " '{x}'"
    assert capture.failure is None


def test_a_repeated_command_without_targets_runs_nothing(reader: CommandReader, tools: ToolFolder) -> None:
    tools.prints("smi", TABLE)
    capture = read(reader, Command((("smi", "-i", "{card}"),), per="card"))
    assert capture.failure == Failure("no_devices", None, "smi: the inventory contains no card")
    assert tools.calls("smi") == []


def test_crash_affects_one_target(reader: CommandReader, tools: ToolFolder) -> None:
    tools.script("smi", 'echo "of $1"\n[ "$1" = 1 ] && kill -SEGV $$\nexit 0')
    request = Command((("smi", "{card}"),), per="card")
    capture = reader.read(poll(request), Targets(cards=("0", "1", "2")))
    assert [(output.target, output.text, output.status) for output in capture.outputs] == [
        ("0", "of 0\n", 0),
        ("1", "", -11),
        ("2", "of 2\n", 0),
    ]
    assert capture.outputs[1].stderr == "smi 1 was killed by SIGSEGV"
    assert capture.failure is None


def test_targets_share_the_deadline(reader: CommandReader, tools: ToolFolder) -> None:
    tools.script("smi", '[ "$1" = 1 ] && exec sleep 600\necho "of $1"')
    request, targets = Command((("smi", "{card}"),), per="card"), Targets(cards=("0", "1", "2"))
    for deadline in (0.3, 3.0, 30.0):  # repeat until the first one is quick enough
        capture = reader.read(poll(request, deadline), targets)
        if len(capture.outputs) > 1:
            break
    text = f"smi 1 did not exit within {deadline:g} s and was killed"
    assert capture.failure == Failure("failed", "timeout", text)
    assert [output.target for output in capture.outputs] == ["0", "1"]
    assert tools.calls("smi")[-2:] == ["0", "1"]


# The action, the command lines that it runs, and whether a rejection selects another line.
CHOICES = {
    "an alternative is remembered": ("read reject read read", "--new --old --old", [True]),
    "a changed tool is asked the first again": ("read reject read change read", "--new --old --new", [True]),
    "after the last comes the first": ("read reject read reject read", "--new --old --new", [True, False]),
    "after a failure in its turn comes the first": ("read reject read reconsider read", "--new --old --new", [True]),
    "rejecting a capture twice skips nothing": ("read reject reject read", "--new --old", [True, True]),
}


@pytest.mark.parametrize(("steps", "lines", "rejected"), CHOICES.values(), ids=CHOICES)
def test_alternatives_are_tried_in_turn(
    reader: CommandReader, tools: ToolFolder, steps: str, lines: str, rejected: list[bool]
) -> None:
    tools.prints("smi", TABLE)
    request = Command((("smi", "--new"), ("smi", "--old")))
    output = []
    for step in steps.split():
        if step == "read":
            capture = read(reader, request)
        elif step == "change":
            tools.prints("smi", TABLE + "1    44.0C  90.0W\n")
        elif step == "reject":
            output.append(reader.reject(capture))
        else:
            reader.reconsider(capture)
    assert (tools.calls("smi"), output) == (lines.split(), rejected)


def test_each_request_has_its_own_chosen_alternative(reader: CommandReader, tools: ToolFolder) -> None:
    tools.prints("smi", TABLE)
    first, other = Command((("smi", "-a"), ("smi", "-b"))), Command((("smi", "-c"), ("smi", "-d")))
    reader.reject(read(reader, first))
    for request in (first, other, first):
        read(reader, request)
    assert tools.calls("smi") == ["-a", "-b", "-c", "-b"]


def test_an_alternative_whose_tool_is_missing_is_passed_over(reader: CommandReader, tools: ToolFolder) -> None:
    tools.prints("old-smi", TABLE)
    capture = read(reader, Command((("new-smi", "-q"), ("old-smi", "-q"))))
    assert capture.outputs[0].name == "old-smi -q"
    assert reader.reject(capture) is False


def test_capture_of_another_reader_rejects_nothing(reader: CommandReader) -> None:
    request = Command((("smi", "-a"), ("smi", "-b")))
    assert reader.reject(Capture("fake", "readings", request)) is False
    assert reader.reject(Capture("fake", "readings", Library("nvml"))) is False


def test_exit_status_is_unknown_where_children_are_not_waited_for(reader: CommandReader, tools: ToolFolder) -> None:
    tools.prints("smi", TABLE, status=3)
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        capture = read(reader, tool("smi"))
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert capture.outputs == (Output("smi", "", TABLE, "", None),)
    assert capture.failure is None


@pytest.mark.parametrize("request_", [Library("nvml"), Command(()), Command(((),))])
def test_a_request_that_names_no_command_fails(reader: CommandReader, request_: Command | Library) -> None:
    capture = reader.read(Poll("readings", request_), NO_TARGETS)
    assert capture.failure is not None
    assert (capture.failure.state, capture.failure.reason) == ("failed", "internal")


def test_chosen_command_line_is_kept_for_an_hour() -> None:
    now = [0.0]
    request, tool = Command((("smi", "--new"), ("smi", "--old"))), Tool("smi", "/opt/smi")
    alternatives = CommandLineChooser(lambda: now[0])

    def chosen_at(seconds: float) -> str:
        now[0] = seconds
        choice = alternatives.choose(request, lambda _name: tool)
        assert choice is not None
        return choice.command_line[1]

    assert chosen_at(0.0) == "--new"
    assert alternatives.reject(request)
    assert [chosen_at(seconds) for seconds in (1.0, 3599.0, 3600.0, 3601.0)] == ["--old", "--old", "--new", "--new"]
