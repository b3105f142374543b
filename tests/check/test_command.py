"""`telemetry check` with daemons, hanging tools, files of thresholds, and checks of real monitoring systems."""

import json
import subprocess
import tempfile
from pathlib import Path

import pytest

from kits.captures import ROOT
from kits.command_line import Completed, run_main
from kits.daemon import COMMAND, Daemon, clean_environment
from kits.fake_tools import ToolFolder

DEPLOY = ROOT / "deploy" / "check"


def check(*arguments: str) -> Completed:
    return run_main("check", *arguments)


def test_simulated_cards_are_ok() -> None:
    command = [*COMMAND, "check", "--demo", "2xnvidia"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=clean_environment({}))
    assert done.returncode == 0
    assert done.stdout.startswith("TELEMETRY OK - 2 devices ok | nvidia_0_temperature=")
    assert done.stdout.count("\n") == 1


def test_daemon_is_asked_first(tmp_path: Path) -> None:
    with Daemon(tmp_path, "[expect.devices]\nnvidia = 3\n", ("--demo", "2xnvidia")) as daemon:
        daemon.until(lambda: daemon.document()["devices"])
        done = check("--node", daemon.address)
        assert done.status == 2
        assert "nvidia devices: 2 of 3 present" in done.stdout
        done = check("--node", daemon.address, "--device", "1", "--format", "json")
        assert done.status == 0
        assert [row["name"] for row in json.loads(done.stdout)["checks"]] == ["nvidia 1"]
        assert check("--node", daemon.address, "--device", "7").status == 3


@pytest.mark.parametrize(("form", "status"), [("nagios", 3), ("nhc", 1), ("npd", 2), ("json", 3)])
def test_missing_daemon_is_unknown(form: str, status: int) -> None:
    done = check("--node", "127.0.0.1:1", "--format", form)
    assert done.status == status
    assert "TELEMETRY UNKNOWN - 127.0.0.1:1" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_deadline_applies_while_a_tool_hangs(tmp_path: Path) -> None:
    tools = ToolFolder(tmp_path / "tools")
    tools.hangs("mthreads-gmi")
    (tmp_path / "check.toml").write_text(f'[state]\ndirectory = "{tmp_path}/s"\nruntime_directory = "{tmp_path}/r"\n')
    command = [*COMMAND, "check", "--config", str(tmp_path / "check.toml"), "--timeout", "2s"]
    environment = clean_environment({"PATH": tools.search_path})
    # The tool hangs longer than a test's time limit.
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode in (2, 3)
    assert "source mthreads-gmi" in done.stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[thresholds]\nhot_celcius = 90\n", "thresholds.hot_celcius: no such number; did you mean hot_celsius"),
        ('[thresholds]\nhot_celsius = "90"\n', "thresholds.hot_celsius: must be a non-negative number, not '90'"),
        ("[thresholds]\nhot_celsius = nan\n", "must be a non-negative number, not nan"),
        ("[expect]\nnvida = 8\n", "expect.nvida: no such vendor; did you mean nvidia?"),
        ("[other]\n", "[other]: no such section; the sections are thresholds and expect"),
        ("thresholds = 3\n", "thresholds: must be a section, as in [thresholds]"),
        ("hot_celsius =\n", "is not valid TOML"),
        pytest.param("a." * 50_000 + "a = 1\n", "more than 64 parts", id="a key of many parts"),
    ],
)
def test_bad_file_of_thresholds_is_named(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "t.toml"
    file.write_text(text)
    done = check("--demo", "1xnvidia", "--thresholds", str(file))
    assert done.status == 3
    assert words in done.stdout
    assert done.stdout.startswith("TELEMETRY UNKNOWN - ")


def test_file_of_thresholds_is_applied(tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    file.write_text("[expect]\nnvidia = 2\n")
    assert check("--demo", "1xnvidia", "--thresholds", str(file)).status == 2
    assert check("--demo", "2xnvidia", "--thresholds", str(file)).status == 0
    assert check("--demo", "1xnvidia", "--thresholds", str(tmp_path / "none")).status == 3


def run_health_check(folder: Path, output: str, status: int) -> tuple[int, str]:
    """Run Slurm's health check with a fake `telemetry`; return its status and its log."""
    tools = ToolFolder(folder)
    tools.script("telemetry", f"printf '%s\\n' '{output}'; exit {status}")
    log = folder / "log"
    tools.script("logger", f'printf "%s\\n" "$*" >> {log}')
    script = (DEPLOY / "health-check.sh").read_text().replace("PATH=/usr/local/bin", f"PATH={folder}:/usr/local/bin")
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    return done.returncode, log.read_text() if log.exists() else ""


@pytest.mark.parametrize(("status", "expected"), [(0, 0), (1, 0), (2, 1), (3, 0), (127, 0)])
def test_slurm_health_check_fails_for_critical_only(tmp_path: Path, status: int, expected: int) -> None:
    found, logged = run_health_check(tmp_path, "TELEMETRY X - nvidia 3: lost | a=1", status)
    assert found == expected
    assert logged == ("" if status == 0 else "-t telemetry-check -- TELEMETRY X - nvidia 3: lost\n")


def test_node_problem_detector_plugin_is_valid() -> None:
    plugin = json.loads((DEPLOY / "node-problem-detector.json").read_text())
    (rule,) = plugin["rules"]
    assert rule["condition"] in {condition["type"] for condition in plugin["conditions"]}
    assert rule["args"][:3] == ["check", "--format", "npd"]
    assert plugin["pluginConfig"]["max_output_length"] == 80


@pytest.mark.long
@pytest.mark.needs("icinga2")
def test_icinga_accepts_the_command() -> None:
    """Icinga compiles the command and the service for a matching host, as another user."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        config = folder / "icinga2.conf"
        config.write_text(
            'include <itl>\nobject Host "n1" {\n check_command = "dummy"\n vars.accelerators = true\n}\n'
            'template Service "generic-service" { max_check_attempts = 3 }\n' + (DEPLOY / "icinga2.conf").read_text()
        )
        command = ["icinga2", "daemon", "-C", "-c", str(config), f"-DDataDir={folder}", f"-DCacheDir={folder}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Instantiated 1 Service" in done.stdout
