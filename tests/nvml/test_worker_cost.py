"""What a worker that asks NVML costs, in counts: modules, functions of Python for a poll, wake-ups."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kits.fake_nvml.library import FakeNvml
from kits.fake_nvml.reader import TIERS
from kits.workers import python_path


@pytest.mark.needs("cc")
def test_a_worker_that_asks_nvml_imports_nothing_heavy(fake: FakeNvml) -> None:
    """Each library costs one such process."""
    program = (
        "import sys\n"
        "from telemetry_daemon.workers import inside\n"
        "inside.Workbench().perform({'ask': {'kind': 'read', 'reader': 'telemetry_daemon.readers.nvml.reader:READER',"
        f" 'request': {{'kind': 'library', 'calls': {list(TIERS)}}}}}}})\n"
        "print(*sys.modules)\n"
    )
    environment = {**python_path(), "LD_LIBRARY_PATH": str(fake.folder)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    found = set(done.stdout.split())
    assert {"pynvml", "telemetry_daemon.readers.nvml.session"} <= found
    heavy = {"dataclasses", "pathlib", "subprocess", "tempfile", "socket", "ssl", "logging", "inspect", "ctypes.util"}
    assert not found & (heavy | {"telemetry_parsers.model", "pydantic", "psutil", "telemetry_parsers.contract"})
    assert len(found) < 130


def test_ctypes_util_is_the_real_one_for_others(tmp_path: Path) -> None:
    """Also for pynvml, should a version of it call the function."""
    program = (
        "import sys\n"
        "from telemetry_daemon.readers.nvml import late_find_library\n"
        "with late_find_library.late():\n"
        "    from ctypes.util import find_library\n"
        "assert 'subprocess' not in sys.modules\n"
        "print(find_library('c'))\n"
        "import ctypes.util\n"
        "print(ctypes.util.find_library('c'), 'subprocess' in sys.modules)\n"
        "with late_find_library.late():\n"
        "    from ctypes.util import find_library\n"
        "print(find_library is ctypes.util.find_library)\n"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert said.stdout.split() == ["libc.so.6", "libc.so.6", "True", "True"], said.stderr
