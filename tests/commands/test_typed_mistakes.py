"""A mistyped command line gets one line with problem and remedy; durations and examples in the help are accepted."""

import argparse
import re
import shlex
from pathlib import Path

import pytest

import telemetry_daemon
from kits.command_line import run_main
from telemetry_daemon.cli import COMMANDS, build_parser, command_module
from telemetry_daemon.commands import options

USAGE, UNAVAILABLE, CONFIGURATION, PROBLEMS, NOTHING, UNKNOWN = 64, 69, 78, 2, 3, 3
# The command line, its exit status, and what its line must say.
CASES = (
    ("snpashot", USAGE, "did you mean 'snapshot'?"),
    ("--vershun", USAGE, "unrecognized arguments: --vershun; did you mean --version?"),
    ("--verison=3 check", USAGE, "did you mean --version?"),
    ("snapshot --wdith 40", USAGE, "did you mean --width"),
    ("snapshot ''", USAGE, "unrecognized arguments"),
    ("snapshot --demo --fault hot", USAGE, "unrecognized arguments: --fault hot; see"),
    ("snapshot --format jsno", USAGE, "did you mean json?"),
    ("snapshot --watch 0", USAGE, "--watch: must be greater than 0"),
    ("snapshot --watch soon", USAGE, "write 90s, 10m, 1h30m, 2d"),
    ("snapshot --timeout 0", USAGE, "--timeout: must be greater than 0"),
    ("snapshot --width 5", USAGE, "--width: must be a number from 20 to 10000"),
    ("snapshot --width wide", USAGE, "--width: must be a number from 20 to 10000"),
    ("snapshot --demo --all tmep", USAGE, "did you mean 'temp*'?"),
    ("snapshot --demo --all xyzzy", USAGE, "`telemetry metrics` lists them"),
    ("snapshot --demo 8xnvidia --device 99", NOTHING, "no device matches --device 99; this node has nvidia 0-7"),
    ("snapshot --demo 8xnvidia --vendor amd", NOTHING, "this node has nvidia 0-7"),
    ("snapshot --demo --vendor nvida", USAGE, "did you mean 'nvidia'?"),
    ("snapshot --source nvlm", USAGE, "did you mean 'nvml'?"),
    ("snapshot --source nvidia-smi", USAGE, "did you mean 'nvml'?"),
    ("snapshot --demo 8", USAGE, "did you mean 8xnvidia?"),
    ("snapshot --demo x", USAGE, "write, for example, 8xnvidia,4xhygon"),
    ("snapshot --demo 999xnvidia", USAGE, "exceed the limit of 256"),
    ("snapshot --at 5m", USAGE, "add --replay FILE"),
    ("snapshot --at end", USAGE, "--at is only for recordings"),
    ("snapshot --why --format json", USAGE, "--why is only for tables"),
    ("snapshot --width 80 --format csv", USAGE, "--width is only for tables"),
    ("snapshot --all temp* --format json", USAGE, "METRIC after --all is only for tables"),
    ("snapshot --all temprature_celsius --demo", USAGE, "did you mean temperature_celsius or"),
    ("snapshot --node x --source nvml", USAGE, "a daemon reports all"),
    ("snapshot --node x --format prometheus", USAGE, "/metrics"),
    ("snapshot --node x --demo", USAGE, "not allowed with argument"),
    ("snapshot --node user:secret@x", USAGE, "--password-file"),
    ("snapshot --processes --format prometheus", USAGE, "--processes is only for tables, JSON and CSV"),
    ("snapshot --source rocm_smi", USAGE, "did you mean 'rocm-smi'?"),
    ("snapshot --source ascend-dmi", USAGE, "did you mean 'npu-smi'?"),
    ("snapshot --form json", USAGE, "--form"),
    ("snapshot --from daemon", UNAVAILABLE, "no daemon of this node answers"),
    ("snapshot --replay /nope", USAGE, "use a file that `telemetry record` wrote"),
    ("snapshot --node no-such-host.invalid", UNAVAILABLE, "check the name, or use the IP address"),
    ("snapshot --node 127.0.0.1:1", UNAVAILABLE, "no daemon answers there; start it"),
    ("doctor --node 127.0.0.1:1", UNAVAILABLE, "no daemon answers there; start it"),
    ("doctor --node n --source nvml", USAGE, "--source and --node cannot be combined"),
    ("doctor --bundle f --source nvml", USAGE, "--source and --bundle cannot be combined"),
    ("doctor --bundle f --format json", USAGE, "--bundle writes both formats"),
    ("doctor --bundle f --node n", USAGE, "not allowed with"),
    ("doctor --source nvmll", USAGE, "unknown source 'nvmll'; did you mean 'nvml'?"),
    ("release nvml", UNAVAILABLE, "start it"),
    ("release", USAGE, "SOURCE"),
    ("release host --for soon", USAGE, "write 90s, 10m, 1h30m, 2d"),
    ("snapshot --password-file /nope --node 127.0.0.1:1", USAGE, "no such file: '/nope'"),
    ("config chekc", USAGE, "did you mean check?"),
    ("config check --config /nope", CONFIGURATION, "`telemetry config default` prints a default file"),
    ("check --thresholds /nope", UNKNOWN, "no such file: '/nope'; use a readable TOML file"),
    ("check --thresholds /etc/passwd", UNKNOWN, "is not valid TOML"),
    ("check --demo 8xnvidia --device 'nvidia 9'", UNKNOWN, "`telemetry snapshot` lists the devices"),
    ("check --timeout soon", UNKNOWN, "write 90s, 10m, 1h30m, 2d"),
    ("check --format nagois", UNKNOWN, "did you mean nagios?"),
    ("check --demo 8", UNKNOWN, "did you mean 8xnvidia?"),
    ("jobs /etc/passwd", PROBLEMS, "use a jobs.jsonl or a ledger.json"),
    ("jobs /nope", USAGE, "no such file: '/nope'; use a readable jobs.jsonl"),
    ("jobs --since yesterday", USAGE, "a day such as 2026-11-01"),
    ("jobs --by usr", USAGE, "did you mean user?"),
    ("metrics tmep", NOTHING, "did you mean 'temp*'?"),
    ("metrics --names dcgm", USAGE, "did you mean dcgm-exporter?"),
    ("metrics --names dcgm-exporter --names-version 3", USAGE, "the versions of dcgm-exporter are"),
    ("metrics --dashboard x", USAGE, "--dashboard needs --names"),
    ("metrics --names-version 3", USAGE, "--names-version needs --names"),
    ("metrics --names xpumd --node x", USAGE, "--node needs --dashboard"),
    ("metrics --names xpumd --dashboard no.json", USAGE, "no such file: 'no.json'"),
    ("parse rocm-smy x", USAGE, "did you mean 'rocm-smi'?"),
    ("parse", USAGE, "SOURCE"),
    ("parse rocm-smi /nope", USAGE, "'/nope'"),
    ("parse rocm-smi /", USAGE, "directory"),
    ("record -o /nope/x", USAGE, "a new file in a writable folder"),
    ("record --for 0", USAGE, "--for: must be greater than 0"),
    ("replay sek 5", USAGE, "did you mean seek?"),
    ("replay seek", USAGE, "telemetry replay seek: give a time"),
    ("replay pause 5s", USAGE, "telemetry replay pause: leave '5s' out"),
    ("maintenance onn", USAGE, "did you mean on?"),
    ("maintenance begin", USAGE, "no such choice: 'begin'"),
    ("maintenance on --for 31d", USAGE, "from 1s to 30d"),
    ("maintenance on --for 4", USAGE, "'4' has no unit; write 4h, 90m or 2d"),
    ("maintenance on --for soon", USAGE, "is not a duration"),
    ("maintenance off --for 1h", USAGE, "only for 'telemetry maintenance on'"),
    ("maintenance --reason why", USAGE, "only for 'telemetry maintenance on'"),
    ("forget", USAGE, "required"),
    ("forget GPU-1 --all-lost", USAGE, "--all-lost"),
    ("forget GPU-1 --vendor amd", USAGE, "--vendor"),
    ("completions zhs", USAGE, "did you mean zsh?"),
    ("profile /nope", USAGE, "pass a readable file or folder"),
)


@pytest.mark.parametrize(("typed", "status", "words"), CASES, ids=[typed for typed, _, _ in CASES])
def test_mistake_gets_one_line_with_the_remedy(typed: str, status: int, words: str) -> None:
    arguments = [word.strip("'") for word in re.findall(r"'[^']*'|\S+", typed)]
    ended = run_main(*arguments, environment={"TELEMETRY_STATE_RUNTIME_DIRECTORY": "/nope"})
    lines = [*ended.stdout.splitlines(), *ended.stderr.splitlines()]
    assert (ended.status, len(lines)) == (status, 1), lines
    assert words in lines[0]


def test_unknown_section_gets_no_suggestion(tmp_path) -> None:
    file = tmp_path / "telemetry.toml"
    file.write_text("[alerts]\n")
    (line,) = run_main("config", "check", "--config", str(file)).stderr.splitlines()
    assert "alerts: no such section; known: attribution" in line


def test_device_is_found_by_the_name_of_check() -> None:
    ended = run_main("check", "--demo", "8xnvidia", "--device", "nvidia 1")
    assert (ended.status, "TELEMETRY OK" in ended.stdout) == (0, True)


def test_metrics_are_searched() -> None:
    found = run_main("metrics", "margin", "temperature").stdout.splitlines()
    assert [line.split()[0] for line in found] == [
        "accelerator_temperature_margin_celsius",
        "accelerator_temperature_margin_limit_celsius",
    ]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("0.5", 0.5), ("90s", 90), ("10m", 600), ("1h30m", 5400), ("2d", 172_800), (" 1H ", 3600)],
)
def test_duration_becomes_seconds(text: str, seconds: float) -> None:
    assert options.parse_seconds(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "0", "0s", "m", "-5m", "1.5h", "1.", ".5", "0.0", "10 m", "10x", "1e3", "٣m", "9" * 40, "5m" * 9]
)
def test_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="write 90s, 10m, 1h30m, 2d"):
        options.parse_seconds(text)


@pytest.mark.parametrize(("text", "seconds"), [("0.1", 0.1), ("2s", 2), ("1d", 86_400)])
def test_durations_up_to_a_day(text: str, seconds: float) -> None:
    assert options.parse_seconds_up_to_a_day(text) == seconds


@pytest.mark.parametrize("text", ["0.05", "2d"])
def test_duration_out_of_range_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=f"'{text}' is out of range; write a duration from 0.1 "):
        options.parse_seconds_up_to_a_day(text)


COMPLETION = Path(telemetry_daemon.__file__).parent / "completion"


@pytest.mark.parametrize("command", [name for name, _ in COMMANDS])
def test_every_command_has_valid_examples(command: str) -> None:
    help_text = build_parser(command).format_help()
    for typed, what in command_module(command).EXAMPLES.items():
        assert f"  {typed}\n      {what}\n" in help_text
        words = shlex.split(typed.partition("telemetry ")[2].partition(" | ")[0].partition(" > ")[0].rstrip(")"))
        assert words[0] == command
        build_parser(command).parse_args(words[1:])


@pytest.mark.parametrize(
    ("shell", "file"), [("bash", "telemetry.bash"), ("zsh", "_telemetry"), ("fish", "telemetry.fish")]
)
def test_completions_are_printed(shell: str, file: str) -> None:
    assert run_main("completions", shell) == (0, (COMPLETION / file).read_text("utf-8"), "")
