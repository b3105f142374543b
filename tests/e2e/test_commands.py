"""The commands as separate processes: output and exit status."""

import gzip
import json
import os
import re
import socket
import threading
from pathlib import Path

import pytest

from kits.command_line import run_main
from kits.daemon import Daemon, bare_config, run
from kits.fake_mthreads_gmi import TABLE
from telemetry_daemon.version import __version__


@pytest.fixture
def config(tmp_path):
    return bare_config(tmp_path)


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "saved.txt"
    path.write_text(TABLE)
    return str(path)


def test_version_is_printed():
    status, out, _ = run_main("version")
    assert (status, out.split()[:2]) == (0, ["telemetry", __version__])


BAD_INPUT = {
    (): (64, "serve", "snapshot"),
    ("frobnicate",): (64, "frobnicate", "snapshot"),
    ("parse", "mth\nreads", "x"): (64, "unknown source", "mthreads-gmi"),
    ("parse", "nvml", __file__): (64, "is not a recording", "'nvml' cannot parse text", "`telemetry record`"),
}
BAD_SERVE = {
    ("--demo", "8xnvidia", "--fault", "lots"): (64, "'lots' is unknown; known: lost, hot, xid, hung, flapping"),
    ("--fault", "lost"): (64, "--fault is only for simulated cards: add --demo"),
    ("--replay", __file__): (64, "line 1", "`telemetry record`"),
    ("--web.listen-address", "nowhere"): (78, "nowhere"),
    ("--web.config.file", "/no/such/file"): (78, "/no/such/file"),
}


@pytest.mark.parametrize(
    "arguments",
    [
        *BAD_INPUT,
        ("serve", "--web.config.file", "/no/such/file"),
        *(pytest.param(("serve", *flags), marks=pytest.mark.long) for flags in BAD_SERVE),
    ],
)
def test_bad_input_is_refused_in_one_line(arguments, tmp_path):
    is_serve = arguments[:1] == ("serve",)
    status, *names = BAD_SERVE[arguments[1:]] if is_serve else BAD_INPUT[arguments]
    environment = {"TELEMETRY_STATE_DIRECTORY": str(tmp_path), "TELEMETRY_STATE_RUNTIME_DIRECTORY": str(tmp_path)}
    code, out, error = (run if is_serve else run_main)(*arguments, environment=environment)
    assert (code, out) == (status, "")
    assert [name for name in names if name not in error] == []
    assert len(error.strip().splitlines()) == 1 or not arguments


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('[log]\nlevle = "debug"\n', ["log.levle", "log.level", "line 5"]),
        ("[sources.nvmll]\ninterval = 1.0\n", ["sources.nvmll", "nvml?", "line 4"]),
        ("[web\n", ["line 4"]),
        ("[log]\nlevel = 3\nformat = 4\n", ["log.level", "log.format"]),
    ],
)
def test_bad_configuration_is_located(config, text, names):
    path = Path(config)
    path.write_text(path.read_text() + text)
    status, out, error = run_main("config", "check", "--config", config)
    assert (status, out) == (78, "")
    assert [name for name in names if name not in error] == []
    assert all(line.startswith("telemetry: ") for line in error.splitlines())


@pytest.mark.parametrize("command", [pytest.param("serve", marks=pytest.mark.long), "snapshot", "doctor", "record"])
def test_bad_configuration_starts_nothing(config, command):
    Path(config).write_text('[log]\nlevle = "debug"\n')
    status, out, error = (run if command == "serve" else run_main)(command, "--config", config)
    assert (status, out, "log.levle" in error) == (78, "", True)


def test_broken_plugin_is_named(config, tmp_path):
    folder = tmp_path / "plugins"
    folder.mkdir(mode=0o755)
    (folder / "acme.py").write_text("def")
    path = Path(config)
    path.write_text(path.read_text() + f'[parsers]\npaths = ["{folder}"]\n')
    parse = ("parse", "acme", config, "--parsers.paths", str(folder))
    for command, wanted in ((("config", "check", "--config", config), 0), (parse, 64)):
        status, _, error = run_main(*command)
        output = f"plugin {folder}/acme.py: not loaded: cannot be loaded: SyntaxError" in error
        assert (status, output) == (wanted, True)


@pytest.mark.parametrize("words", [["help"], ["--help"], ["help", "record"], ["record", "--help"]])
def test_help_exits_with_0(words):
    status, out, error = run_main(*words)
    assert (status, out.startswith("usage: telemetry"), error) == (0, True, "")


def test_taken_port_is_named(config):
    """The exit status differs from the status that prevents a restart by systemd."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        status, _, error = run("serve", "--config", config, "--web.listen-address", address)
    assert (status, address in error, "Traceback" in error) == (69, True, False)


def test_default_and_effective_configuration(config):
    status, default, _ = run_main("config", "default")
    assert (status, "[web]" in default) == (0, True)
    assert run_main("config", "check", "--config", config)[0] == 0
    status, shown, _ = run_main("config", "show", "--config", config)
    assert (status, "runtime_directory" in shown) == (0, True)


def test_saved_output_is_parsed_into_each_form(saved):
    status, out, _ = run_main("parse", "mthreads-gmi", saved)
    device = json.loads(out)["devices"][0]
    assert (status, device["index"], device["bus_id"], device["model"]) == (0, 0, "0000:1a:00.0", "MTT S80")
    assert device["readings"]["temperature_celsius"] == {"core": 58.0}
    assert device["readings"]["memory_used_ratio"] == 0.125
    status, out, _ = run_main("parse", "mthreads-gmi", saved, "--format", "prometheus")
    assert (status, 'accelerator_utilization_ratio{device="0",id="0000:1a:00.0"' in out) == (0, True)
    status, out, _ = run_main("parse", "mthreads-gmi", saved, "--format", "table")
    assert (status, "MTT S80" in out) == (0, True)


@pytest.mark.parametrize("content", [b"", b"\x00\xff" * 500, b"Error: failed to initialize mtml: driver not loaded\n"])
def test_invalid_output_is_parsed_to_a_problem(tmp_path, content):
    path = tmp_path / "odd"
    path.write_bytes(content)
    status, out, error = run_main("parse", "mthreads-gmi", str(path))
    document = json.loads(out)
    assert (status, error, document["devices"]) == (2, "", [])
    assert document["sources"][0]["problems"]


def test_recording_without_captures_is_refused(tmp_path):
    (tmp_path / "empty.gz").write_bytes(gzip.compress(b""))
    assert "/empty.gz' contains no captures; " in run_main("parse", "rocm-smi", f"{tmp_path}/empty.gz").stderr


def test_standard_input_and_files_are_parsed(saved, tmp_path):
    """`-` is standard input; more than one file are the outputs of one node."""
    other = tmp_path / "other.txt"
    other.write_text(TABLE.replace("0    MTT", "1    MTT").replace(":1a:", ":1b:"))
    status, out, _ = run_main("parse", "mthreads-gmi", "-", str(other), stdin=TABLE)
    assert (status, [d["index"] for d in json.loads(out)["devices"]]) == (0, [0, 1])


def test_pipe_is_parsed_if_it_has_a_writer(tmp_path):
    """`parse SOURCE <(tool)` waits for the tool; a pipe without a writer is refused."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for command in (("parse", "mthreads-gmi"), ("jobs",)):
        status, _, error = run_main(*command, str(pipe))
        assert (status, "it is a pipe without a writer" in error) == (64, True)
    reading, writing = os.pipe()

    def write() -> None:
        with os.fdopen(writing, "wb") as stream:
            stream.write(TABLE.encode())

    writer = threading.Thread(target=write)
    try:
        writer.start()
        status, out, _ = run_main("parse", "mthreads-gmi", f"/dev/fd/{reading}")
    finally:
        writer.join()
        os.close(reading)
    assert (status, [device["index"] for device in json.loads(out)["devices"]]) == (0, [0])


def test_snapshot_status_depends_on_the_sources(config, tools):
    """0 with devices, 2 if a source failed, 3 without devices."""
    environment = {"PATH": tools.search_path}
    arguments = ("snapshot", "--config", config, "--format", "json")
    assert run_main(*arguments, environment=environment)[0] == 3
    tools.prints("mthreads-gmi", TABLE)
    status, out, _ = run_main(*arguments, environment=environment)
    document = json.loads(out)
    assert (status, [device["model"] for device in document["devices"]]) == (0, ["MTT S80"])
    assert 0.0 <= document["host"]["readings"]["telemetry_host_cpu_utilization_ratio"] <= 1.0
    status, out, error = run_main(*arguments, "--vendor", "nvidia", "--device", "1", environment=environment)
    assert (status, json.loads(out)["devices"]) == (3, [])
    assert error == "telemetry: no device matches --vendor nvidia --device 1; this node has moorethreads 0\n"
    tools.prints("mthreads-gmi", "Error: failed to initialize mtml: driver not loaded\n")
    assert run_main(*arguments, environment=environment)[0] == 2
    tools.hangs("mthreads-gmi")
    assert run_main(*arguments, "--timeout", "1", environment=environment)[0] == 2


@pytest.mark.parametrize("form", ["table", "csv", "prometheus"])
def test_snapshot_names_the_card_in_each_form(form):
    status, out, _ = run_main("snapshot", "--demo", "1xmoorethreads", "--format", form)
    assert (status, "MTT" in out) == (0, True)


def test_snapshot_takes_busy_tool_from_the_daemon(tmp_path, tools):
    tools.prints("mthreads-gmi", TABLE)
    settings = '[sources.mthreads-gmi]\ninterval = 6.0\ndeadline = 60.0\nmode = "always"\n'
    with Daemon(tmp_path, settings, environment={"PATH": tools.search_path}) as daemon:
        daemon.until_state("mthreads-gmi", "ok")
        tools.sleeps("mthreads-gmi")
        before = len(tools.calls("mthreads-gmi"))
        daemon.until(lambda: len(tools.calls("mthreads-gmi")) > before)
        status, out, _ = run_main(
            "snapshot", "--config", str(daemon.config_path), "--format", "json", "--timeout", "4",
            environment={"PATH": tools.search_path},
        )  # fmt: skip
        assert (status, [d["model"] for d in json.loads(out)["devices"]]) == (0, ["MTT S80"])
        assert len(tools.calls("mthreads-gmi")) == before + 1


def test_recording_is_written_to_standard_output(config, tools, tmp_path, monkeypatch):
    tools.prints("mthreads-gmi", TABLE)
    monkeypatch.chdir(tmp_path)
    environment = {"PATH": tools.search_path}
    status, out, error = run_main("record", "-o", "-", "--for", "0.1", "--config", config, environment=environment)
    assert (status, '"source":"mthreads-gmi"' in out.replace(" ", "")) == (0, True)
    summary = r"telemetry: recorded \d+ captures of \d+ sources from the tools in \d+ s: \d+ identifying values were masked.*\n"
    assert re.fullmatch(summary, error)
    assert not (tmp_path / "-").exists()


@pytest.mark.parametrize(("mask", "is_named"), [((), False), (("--unmasked",), True)])
def test_recording_is_masked_parsed_and_replayed(config, tools, tmp_path, mask, is_named):
    tools.prints("mthreads-gmi", f"{TABLE}\nSerial Number: QX7730041\nreport of zebrina\n")
    path = tmp_path / "recording.jsonl"
    environment = {"PATH": tools.search_path, "SUDO_USER": "zebrina"}
    arguments = ("record", "-o", str(path), "--for", "0.1", *mask, "--config", config)
    status, out, error = run_main(*arguments, environment=environment)
    assert (status, out) == (0, "")
    assert f" to {path} (" in error
    assert ("nothing is masked" in error) == is_named
    recorded = path.read_text()
    assert ("QX7730041" in recorded, "report of zebrina" in recorded) == (is_named, is_named)
    _, out, _ = run_main("parse", "mthreads-gmi", str(path))
    assert [device["model"] for device in json.loads(out)["devices"]] == ["MTT S80"]
    (missing,) = json.loads(run_main("parse", "npu-smi", str(path)).stdout)["sources"]
    assert (missing["state"], missing["reason"]) == ("missing", None)
    document = json.loads(run_main("snapshot", "--replay", str(path), "--format", "json").stdout)
    host = socket.gethostname() if is_named else None
    assert (document["hostname"], document["replay"]["hostname"]) == (host, host)
    assert [device["replayed"] for device in document["devices"]] == [True]
    if is_named:
        return
    with Daemon(tmp_path, arguments=("--replay", str(path))) as daemon:
        daemon.until_state("mthreads-gmi", "ok")
        (info,) = [line for line in daemon.page().splitlines() if line.startswith("accelerator_info{")]
        assert 'model="MTT S80"' in info
        assert 'replayed="true"' in info
        assert daemon.document()["replay"]["recorded"] < daemon.document()["time"]


def doctor(config, tools, *arguments):
    """Return the exit status, the first part, and the lines of each source."""
    status, out, _ = run_main("doctor", *arguments, "--config", config, environment={"PATH": tools.search_path})
    head, *parts = out.split("\n\n")
    return status, head, {part.partition(":")[0]: part.splitlines() for part in parts}


def test_doctor_reports_sources(config, tools):
    tool = tools.prints("mthreads-gmi", TABLE)
    status, head, parts = doctor(config, tools)
    assert (status, "accelerators on the PCI bus" in head) == (0, True)
    assert parts["mthreads-gmi"][0] == "mthreads-gmi: ok, version 1.14.0, 1 device"
    assert parts["mthreads-gmi"][1].split() == ["at", str(tool)]
    polls = [line for line in parts["mthreads-gmi"] if line.startswith("  poll     readings ok, ")]
    assert [line.endswith("s of CPU") and ", 1 run, " in line for line in polls] == [True]
    assert any(line.startswith("  absent   not_reported: ") for line in parts["mthreads-gmi"])
    assert "nvml" not in parts
    (rest,) = [part for part in parts.values() if part[0].startswith("not found ")]
    assert "nvml" in " ".join(rest)


def test_simulated_node_is_marked(tmp_path):
    with Daemon(tmp_path, arguments=("--demo", "2xnvidia,1xhygon")) as daemon:
        daemon.until(lambda: daemon.page().count("accelerator_info{") == 3)
        infos = [line for line in daemon.page().splitlines() if line.startswith("accelerator_info{")]
        assert all('simulated="true"' in line for line in infos)
        assert {device["simulated"] for device in daemon.document()["devices"]} == {True}
        status, out, _ = run_main("doctor", "--node", daemon.address)
        assert (status, "faults of simulated or recorded cards are not findings" in out) == (0, True)
        assert daemon.stop()[0] == 0
    assert not (tmp_path / "state" / "devices.json").exists()
