"""`telemetry profile` from outside: real profiles where they lie, traces of our own, ranks, recordings, and what goes wrong."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema
import psutil
import pytest

from kits.captures import ROOT
from kits.daemon import Daemon, run
from kits.fake_nvml.library import FakeNvml
from kits.fake_nvml.profile import load_profile
from kits.prometheus import Prometheus
from kits.traces import event, profile_captures
from kits.waiting import until

SCHEMA = json.loads((ROOT / "docs/profile.schema.json").read_text())
THERMAL = 0x40  # nvmlClocksEventReasonHwThermalSlowdown
US = 1_000_000


def trace(begin: float, *, compute_us: int = 600, rank: int | None = None) -> dict[str, Any]:
    """Four steps of a millisecond: a kernel, a copy, and nothing."""
    events = []
    for number in range(4):
        at = round(begin * US) + 1000 * number
        events += [
            event("user_annotation", f"ProfilerStep#{number}", at, 1000, pid=9, tid=9),
            event(
                "kernel",
                "gemm",
                at + 10,
                compute_us,
                args={"device": 0, "stream": 7, "grid": [8, 1, 1], "block": [256, 1, 1]},
            ),
            event(
                "gpu_memcpy",
                "Memcpy HtoD (Pinned -> Device)",
                at + 10 + compute_us,
                100,
                args={"device": 0, "stream": 7},
            ),
        ]
        if rank is not None:
            at += compute_us + 110
            events.append(
                event("kernel", "ncclDevKernel_AllReduce", at, 990 - compute_us - 110, args={"device": 0, "stream": 8})
            )
    head: dict[str, Any] = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}]}
    if rank is not None:
        head["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": 4}
    return {**head, "traceEvents": events}


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def profiled(*arguments: str | Path, columns: int = 80, **environment: str) -> Done:
    return Done(*run("profile", *map(str, arguments), environment={"COLUMNS": str(columns), **environment}))


def document(*arguments: str | Path, **environment: str) -> dict[str, Any]:
    done = profiled(*arguments, "--format", "json", **environment)
    told: dict[str, Any] = json.loads(done.stdout)
    jsonschema.validate(told, SCHEMA)
    return told


SCREEN = """\
3 steps of 1.0 ms, 1 card (NVIDIA H100 80GB HBM3), 2023-11-14 22:13:20 UTC
Slow because: the card waits 30 % of the step for the host
compute 0.6  communication 0  copies 0.1  idle 0.3 ms   launches 1
TOP KERNELS                                     CALLS     TOTAL      MEAN  SHARE
gemm                                                4    2.4 ms  600.0 µs  85.7%
Memcpy HtoD (Pinned -> Device)                      4  400.0 µs  100.0 µs  14.3%
achieved 200 TFLOP/s, 20 % of the card's bf16 peak (from --flops-per-step)
card: no telemetry asked (--recording FILE or --prometheus URL)
left out: ProfilerStep#0 (the first: profiler and caches begin)
"""


def test_a_screen_of_80_columns(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    file.write_text(json.dumps(trace(1_700_000_000)))
    done = profiled(file, "--flops-per-step", "2e11", "--dtype", "bf16")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == SCREEN


@pytest.mark.parametrize(
    ("columns", "first", "step"),
    [(80, 0, 4), *(pytest.param(80, first, 4, marks=pytest.mark.long) for first in (1, 2, 3)), (200, 0, 7)],
)
def test_every_real_profile_gives_a_screen_that_fits_or_an_error_that_names_it(
    columns: int, first: int, step: int
) -> None:
    folder = profile_captures()
    if folder is None:
        return
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".md"]
    for path in files[first::step]:
        done = profiled(path, columns=columns)
        lines = done.stdout.splitlines()
        assert len(lines) <= 24, path
        assert max(map(len, lines), default=0) <= columns, path
        assert done.returncode in (0, 2, 3), (path, done.stderr)
        assert "Traceback" not in done.stderr, path
        assert lines or str(path.name) in done.stderr


@pytest.mark.parametrize(
    "name", ["torch/pair128", "mindspore/cluster-pipeline", "nsys", "msprof", "ascend_pytorch", "hipprof"]
)
def test_documents_of_real_profiles_follow_the_schema(name: str) -> None:
    folder = profile_captures()
    if folder is not None:
        assert document(folder / name)["schema"] == "telemetry.profile/1"


def test_data_loading_is_named() -> None:
    folder = profile_captures()
    if folder is not None:
        told = document(folder / "torch/v100-resnet50-workers0-one-step.json.gz")
        assert told["verdict"]["cause"] == "data"
        assert "data loader takes 68.8 ms" in told["verdict"]["text"]


def test_of_real_ranks_none_is_named_and_one_that_is_stretched_is(tmp_path: Path) -> None:
    folder = profile_captures()
    if folder is None:
        return
    ranks = tmp_path / "ranks"
    ranks.mkdir()
    for path in (folder / "mindspore/cluster-pipeline").iterdir():
        (ranks / path.name).write_bytes(path.read_bytes())
    assert document(ranks)["ranks"]["straggler"] is None
    slow = ranks / "ascend_cluster_analyse_pipeline-parallel_2_4_1.csv"
    rows = list(csv.DictReader(io.StringIO(slow.read_text())))
    for row in rows:
        compute = float(row["computation_time"])
        row["computation_time"] = str(compute * 1.2)
        row["communication_alone_time"] = str(float(row["communication_alone_time"]) - compute * 0.2)
    with slow.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    told = document(ranks)
    assert told["ranks"]["straggler"]["rank"] == 1
    assert told["verdict"]["cause"] == "straggler"


def test_the_rank_that_computes_while_the_others_wait_is_named(tmp_path: Path) -> None:
    for rank in range(4):
        content = json.dumps(trace(1_700_000_000, compute_us=800 if rank == 2 else 600, rank=rank))
        (tmp_path / f"worker{rank}.pt.trace.json.gz").write_bytes(gzip.compress(content.encode()))
    told = document(tmp_path)
    assert told["ranks"]["straggler"] == {"rank": 2, "excess_ratio": pytest.approx(1 / 3)}
    assert told["ranks"]["skew_ratio"] == pytest.approx(0.0)
    assert "rank 2 computes 33 % longer" in profiled(tmp_path).stdout


@pytest.mark.needs("cc")
def test_a_throttled_card_is_named_for_the_same_seconds_only(tmp_path: Path) -> None:
    fake = FakeNvml(tmp_path / "nvml", load_profile("h100").with_gpus(1))
    for call in ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"):
        fake.tell(0, call, THERMAL)
    recording, file = tmp_path / "node.jsonl", tmp_path / "trace.json"
    begin = time.time()
    done = Done(*run("record", "--from", "tools", "-o", str(recording), "--for", "4s", environment=fake.environment))
    assert done.returncode == 0, done.stderr
    file.write_text(json.dumps(trace(begin + 2)))
    told = document(file, "--recording", recording)
    assert told["verdict"]["cause"] == "throttled", told
    assert told["devices"][0]["telemetry"]["is_guess"]
    file.write_text(json.dumps(trace(begin + 3602)))
    told = document(file, "--recording", recording)
    assert told["devices"][0]["telemetry"] is None
    assert told["verdict"]["cause"] == "host"


@pytest.mark.needs("cc", "prometheus")
def test_a_prometheus_tells_of_the_same_seconds(tmp_path: Path) -> None:
    fake = FakeNvml(tmp_path / "nvml", load_profile("h100").with_gpus(2))
    for call in ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"):
        fake.tell(0, call, THERMAL)
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
        told = document(file, "--prometheus", url)
        assert told["verdict"]["cause"] == "throttled", told
        then = told["devices"][0]["telemetry"]
        assert (then["matched_by"], then["model"]) == ("index", "NVIDIA H100 80GB HBM3")
        assert then["clock_hertz"]["max"] <= then["clock_max_hertz"]
        file.write_text(json.dumps(trace(begin - 3600)))
        assert document(file, "--prometheus", url)["devices"][0]["telemetry"] is None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"hello\n", "is no result of a profiler"),
        (b'{"a": 1}', "is no result of a profiler"),
        (b"QDSTRM\x00\x01", "nsys export --type sqlite"),
        (b"NVR\x00\x01", "ncu --import"),
        (b"\x0a\x1c\x00\x08\x01", "needs a library"),
        (b"device,HBMBw,HBMBwLow\n0,1,1\n", "measured peaks"),
        (b"SQLite format 3\x00" + b"\xff" * 200, "database"),
    ],
)
def test_what_is_no_profile_is_named_with_what_was_looked_for(tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "thing"
    file.write_bytes(content)
    done = profiled(file)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert str(file) in done.stderr
    assert words in done.stderr


def test_steps_of_a_profile_are_published(tmp_path: Path) -> None:
    config, file, folder = tmp_path / "telemetry.toml", tmp_path / "trace.json", tmp_path / "steps"
    config.write_text(f'[steps]\ndirectory = "{folder}"\n')
    file.write_text(json.dumps(trace(1_700_000_000, rank=1)))
    assert "install -d -m 1777" in profiled(file, "--publish", "77", "--config", config).stderr
    folder.mkdir()
    assert profiled(file, "--publish", "77", "--config", config).returncode == 0
    told = json.loads((folder / "profile-77-1.json").read_text())
    assert (told["job_id"], told["rank"], told["card"], told["steps"]) == ("77", "1", {"index": 0}, 4.0)
    assert told["seconds"]["compute"] == pytest.approx(0.0024)


def test_a_cut_archive_shows_what_is_whole_and_says_so(tmp_path: Path) -> None:
    file = tmp_path / "trace.json.gz"
    packed = gzip.compress(json.dumps(trace(1_700_000_000)).encode())
    file.write_bytes(packed[: len(packed) * 9 // 10])
    done = profiled(file)
    assert done.returncode == 2
    assert "not read:" in done.stdout


def test_without_a_device_the_status_says_so(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    file.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [event("cpu_op", "aten::mm", 1, 2)]}))
    assert profiled(file).returncode == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--prometheus", "http://127.0.0.1:1"], "did not answer"),
        (["--prometheus", "ftp://x"], "is no address of a Prometheus"),
        (["--recording", "/no/such/file"], "No such file"),
        (["--begin", "yesterday"], "is no time"),
        (["--flops-per-step", "0"], "is no number above 0"),
    ],
)
def test_bad_arguments_are_named(tmp_path: Path, arguments: list[str], words: str) -> None:
    file = tmp_path / "trace.json"
    file.write_text(json.dumps(trace(1_700_000_000)))
    done = profiled(file, *arguments)
    assert done.returncode == 64
    assert words in done.stderr


def _reads(pid: int, path: Path) -> bool:
    """Whether a child of that process has the file open."""
    for child in psutil.Process(pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # it has just ended
            if str(path) in (file.path for file in child.open_files()):
                return True
    return False


def test_the_first_interrupt_shows_what_was_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(trace(1_700_000_000)))
    os.mkfifo(tmp_path / "b.json")
    big = tmp_path / "c.json"
    with big.open("w") as file:
        file.write('{"traceEvents": [')
        line = json.dumps(event("kernel", "k", 1, 1, args={"device": 0}))
        for _ in range(60):
            file.write(f"{line}," * 50_000)
        file.write(f"{line}]}}")
    command = [sys.executable, "-m", "telemetry_daemon.cli", "profile", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        until(lambda: _reads(process.pid, big), "the large file is read")
        time.sleep(0.8)  # for the small one, which another process has begun with; the large one takes seconds
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 2, err
    assert "TOP KERNELS" in out
    assert "ended before all files were read" in err or "gemm" in out
