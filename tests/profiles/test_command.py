"""`telemetry profile` as a command: made-up traces, ranks, recordings, a Prometheus, and errors."""

import contextlib
import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import psutil
import pytest

from kits.captures import CAPTURES, ROOT
from kits.command_line import Completed, run_main
from kits.daemon import Daemon, run
from kits.fake_nvml.library import FakeNvml
from kits.fake_nvml.profile import load_profile
from kits.prometheus import Prometheus
from kits.waiting import PATIENCE_SECONDS, until
from profiles.traces import event
from telemetry_profile.files import read_files
from telemetry_profile.files.read_files import Outcome, ProfileFile

SCHEMA = json.loads((ROOT / "docs/profile.schema.json").read_text())
THERMAL = 0x40  # nvmlClocksEventReasonHwThermalSlowdown
US = 1_000_000
STEPS = 12
H100 = "NVIDIA H100 80GB HBM3"


def trace(begin: float, *, rank: int | None = None, model: str = H100) -> dict[str, Any]:
    on_card = {"device": 0, "stream": 7}
    launched = on_card | {"grid": [8, 1, 1], "block": [256, 1, 1]}
    events = []
    for number in range(STEPS):
        at = round(begin * US) + 1000 * number
        events += [
            event("user_annotation", f"ProfilerStep#{number}", at, 1000, pid=9, tid=9),
            event("kernel", "gemm", at + 10, 600, args=launched),
            event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", at + 610, 100, args=on_card),
        ]
    head: dict[str, Any] = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": model}]}
    if rank is not None:
        head["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": 4}
    return {**head, "traceEvents": events}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the file of a trace of a few steps."""
    written = tmp_path / "trace.json"
    written.write_text(json.dumps(trace(1_700_000_000)))
    return written


def profiled(*arguments: str | Path) -> Completed:
    def read_all(files: Sequence[ProfileFile], read: read_files.Read) -> Iterator[Outcome]:
        return (read(found) for found in files)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read_files, "read_all", read_all)
        return run_main("profile", *map(str, arguments), environment={"COLUMNS": "80"})


def document(*arguments: str | Path) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(profiled(*arguments, "--format", "json").stdout)
    jsonschema.validate(answer, SCHEMA)
    return answer


SCREEN = """\
11 steps of 1.0 ms by the host's clock, 1 card (NVIDIA H100 80GB HBM3),
  2023-11-14 22:13:20 UTC
Slow because: the host keeps the card waiting for 30 % of the step
Try: launch less often, for example with graphs, a compiled model, or a larger
  batch
compute 0.6  communication 0  copies 0.1  idle 0.3 ms   launches 1
TOP KERNELS                                       CALLS   TOTAL      MEAN  SHARE
gemm                                                 12  7.2 ms  600.0 µs  85.7%
Memcpy HtoD (Pinned -> Device)                       12  1.2 ms  100.0 µs  14.3%
by kind: GEMM 86 %, copy 14 %
achieved 200 TFLOP/s, 20 % of the card's bf16 peak (from --flops-per-step)
card: no telemetry (use --recording FILE or --prometheus URL)
left out: ProfilerStep#0 (warm-up of profiler and caches)
"""


def test_a_screen_of_80_columns(file: Path) -> None:
    shown = run("profile", str(file), "--flops-per-step", "2e11", "--dtype", "bf16", environment={"COLUMNS": "80"})
    assert shown == (0, SCREEN, "")


def test_a_throttled_card_of_a_recording_is_named_for_the_same_seconds_only(tmp_path: Path) -> None:
    recording, file = CAPTURES / "nvml" / "t4.jsonl", tmp_path / "trace.json"
    throttled = 1_790_000_013
    file.write_text(json.dumps(trace(throttled, model="Tesla T4")))
    answer = document(file, "--recording", recording)
    assert answer["verdict"]["cause"] == "throttled", answer
    assert answer["devices"][0]["telemetry"]["is_guess"]
    file.write_text(json.dumps(trace(throttled + 3600, model="Tesla T4")))
    answer = document(file, "--recording", recording)
    assert answer["devices"][0]["telemetry"] is None
    assert answer["verdict"]["cause"] == "host"


@pytest.mark.needs("cc", "prometheus")
def test_a_throttled_card_of_a_prometheus_is_named_for_the_same_seconds_only(tmp_path: Path) -> None:
    fake = FakeNvml(tmp_path / "nvml", load_profile("h100").with_gpus(2))
    for call in ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"):
        fake.set_answer(0, call, THERMAL)
    (tmp_path / "prometheus").mkdir()
    with (
        Daemon(tmp_path, "[sources.nvml]\ninterval = 0.5\n", environment=fake.environment) as daemon,
        Prometheus(tmp_path / "prometheus", [daemon.address]) as prometheus,
    ):
        until(lambda: prometheus.query("accelerator_throttled > 0")[1], "a throttled card")
        begin, file = time.time(), tmp_path / "trace.json"
        url = f"http://{prometheus.address}"
        until(lambda: prometheus.query(f"accelerator_up @ {begin + 1}")[1], "the next second")
        file.write_text(json.dumps(trace(begin)))
        answer = document(file, "--prometheus", url)
        assert answer["verdict"]["cause"] == "throttled", answer
        then = answer["devices"][0]["telemetry"]
        assert (then["matched_by"], then["model"]) == ("index", H100)
        assert then["clock_hertz"]["max"] <= then["clock_max_hertz"]
        file.write_text(json.dumps(trace(begin - 3600)))
        assert document(file, "--prometheus", url)["devices"][0]["telemetry"] is None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"hello\n", "was not written by a"),
        (b'{"a": 1}', "was not written by a"),
        (b"QDSTRM\x00\x01", "nsys export --type sqlite"),
        (b"NVR\x00\x01", "ncu --import"),
        (b"\x0a\x1c\x00\x08\x01", "needs its own library"),
        (b"device,HBMBw,HBMBwLow\n0,1,1\n", "measured peaks"),
        (b"SQLite format 3\x00" + b"\xff" * 200, "database"),
    ],
)
def test_file_without_a_profile_is_named_with_the_expected_formats(tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "thing"
    file.write_bytes(content)
    done = profiled(file)
    assert (done.status, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert str(file) in done.stderr
    assert words in done.stderr


def test_steps_of_a_profile_are_published(tmp_path: Path) -> None:
    config, file, folder = tmp_path / "telemetry.toml", tmp_path / "trace.json", tmp_path / "steps"
    config.write_text(f'[steps]\ndirectory = "{folder}"\n')
    file.write_text(json.dumps(trace(1_700_000_000, rank=1)))
    assert "install -d -m 1777" in profiled(file, "--publish", "77", "--config", config).stderr
    folder.mkdir()
    assert profiled(file, "--publish", "77", "--config", config).status == 0
    answer = json.loads((folder / "profile-77-1.json").read_text())
    assert (answer["job_id"], answer["rank"], answer["card"], answer["steps"]) == (
        "77",
        "1",
        {"index": 0},
        float(STEPS),
    )
    assert answer["seconds"]["compute"] == pytest.approx(0.0006 * STEPS)


def test_truncated_archive_shows_complete_files_with_a_warning(file: Path) -> None:
    packed = gzip.compress(file.read_bytes())
    file.write_bytes(packed[: len(packed) * 9 // 10])
    done = profiled(file)
    assert done.status == 2
    assert "not read:" in done.stdout


def test_profile_without_a_device_has_its_exit_status(file: Path) -> None:
    file.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [event("cpu_op", "aten::mm", 1, 2)]}))
    assert profiled(file).status == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--prometheus", "http://127.0.0.1:1"], "did not answer"),
        (["--prometheus", "ftp://x"], "is not the address of a Prometheus server"),
        (["--recording", "/no/such/file"], "No such file"),
        (["--begin", "yesterday"], "is not a time"),
        (["--flops-per-step", "0"], "is not a number above 0"),
    ],
)
def test_bad_arguments_are_named(file: Path, arguments: list[str], words: str) -> None:
    done = profiled(file, *arguments)
    assert done.status == 64
    assert words in done.stderr


def test_first_interrupt_shows_the_files_read_so_far(file: Path) -> None:
    """The reader of a large file is stopped, so that it does not reach the end."""
    os.mkfifo(file.parent / "a-pipe.json")
    large = file.parent / "op_statistic.csv"
    with large.open("w") as stream:
        stream.write("Device_id,OP Type,Core Type,Count,Total Time(us),Max Time(us)\n")
        stream.truncate(1 << 36)
    command = [sys.executable, "-m", "telemetry_daemon.cli", "profile", str(file.parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        parent = psutil.Process(process.pid)
        until(lambda: _stopped_in(parent, large), "the reader of the large file")
        until(lambda: len(parent.children()) == 1 and parent.status() == "sleeping", "the end of the other readers")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 2, err
    assert "TOP KERNELS" in out
    assert "interrupted before all files were read" in err


def _stopped_in(parent: psutil.Process, path: Path) -> bool:
    """Return whether a child has the file open, which is stopped there."""
    for child in parent.children():
        with contextlib.suppress(psutil.NoSuchProcess):  # it has just ended
            if str(path) in (file.path for file in child.open_files()):
                child.send_signal(signal.SIGSTOP)
                return True
    return False
