"""The measurements for a node with a real GPU, here on the fake library; a failing part does not affect others."""

import re
import subprocess
from pathlib import Path

import pytest

from kits.captures import ROOT
from kits.fake_nvml.library import FakeNvml
from kits.fake_nvml.profile import load_profile

pytestmark = [pytest.mark.installed, pytest.mark.needs("cc")]
XML = """<nvidia_smi_log><gpu id="00000000:1B:00.0"><fb_memory_usage><total>81559 MiB</total></fb_memory_usage>
<temperature><gpu_temp>54 C</gpu_temp><memory_temp>N/A</memory_temp></temperature></gpu></nvidia_smi_log>"""


def test_each_part_writes_its_results(tmp_path: Path) -> None:
    fake = FakeNvml(tmp_path / "nvml", load_profile("h100").with_gpus(1).busy())
    fake.cost("h200")
    tool = tmp_path / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\ncat <<'END'\n{XML}\nEND\n")
    tool.chmod(0o755)
    environment = {**fake.environment, "PATH": f"{tool.parent}:{fake.environment['PATH']}"}
    out = tmp_path / "out"
    line = [ROOT / "benchmarks/on_gpu.sh", "--alone", "--seconds", "2", "--out", out]
    done = subprocess.run(line, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    summary = (out / "summary.txt").read_text()
    assert "no load: gpu_load.py: libcuda.so.1" in done.stdout
    assert [name for name in ("nvml-cost.json", "side-by-side-idle.txt", "side-by-side-load.txt", "parity.txt", "energy.txt", "load.jsonl.gz") if not (out / name).exists()] == []  # fmt: skip
    assert "failed" not in summary
    parity = " ".join((out / "parity.txt").read_text().split())
    assert re.search(r"\| temperature_celsius memory \| N/A \| \d+ \|", parity)
    exact = [line.split("|")[4:6] for line in (out / "energy.txt").read_text().splitlines()[2:]]
    assert [float(ratio) for ratio, _ in exact] == pytest.approx([1.0] * 3, abs=0.02)
