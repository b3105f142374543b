"""The measured cost of NVML calls is that of the fake driver, and no output identifies the machine."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kits.captures import ROOT
from kits.fake_nvml.library import FakeNvml

pytestmark = pytest.mark.needs("cc")


def test_calls_and_fields_are_measured_without_machine_names(tmp_path: Path) -> None:
    fake, document = FakeNvml(tmp_path / "nvml", "h200"), tmp_path / "cost.json"
    fake.cost("h200")
    line = [sys.executable, ROOT / "benchmarks/nvml_cost.py", "--seconds", "0.5", "--rounds", "3", "--json", document]
    done = subprocess.run(line, env=fake.environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(document.read_text())
    assert (found["gpu"], found["driver"]) == ("NVIDIA H200", fake.profile.driver)
    rows = {row["name"]: row for row in found["calls"]}
    for name, microseconds in (("field 83", 3500), ("GpmSampleGet", 1900), ("fields of a poll of counters", 4700)):
        assert rows[name]["tries"] == 3
        assert rows[name]["median_us"] >= rows[name]["cpu_median_us"] >= microseconds
        assert name in done.stdout
    assert rows["FanSpeed"]["errors"] == {"3": 1}
    written = done.stdout + document.read_text()
    assert not [text for text in ("GPU-", "16544240387", "0000:19", "61044") if text in written]


def test_missing_driver_is_reported(tmp_path: Path) -> None:
    line = [sys.executable, ROOT / "benchmarks/nvml_cost.py", "--json", tmp_path / "cost.json"]
    done = subprocess.run(line, env={"LD_LIBRARY_PATH": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 1
    assert "GPU 0 cannot be opened" in done.stderr
