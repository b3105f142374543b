"""The cost of a worker that calls NVML, in counts: modules, Python functions per poll, wake-ups."""

import subprocess
import sys
from pathlib import Path

import pytest


def test_ctypes_util_is_the_real_one_for_others(tmp_path: Path) -> None:
    """Other users of the function, such as a future pynvml, get the real one."""
    program = (
        "import sys\n"
        "from telemetry_daemon.readers.nvml.library import lazy_ctypes_util\n"
        "with lazy_ctypes_util():\n"
        "    from ctypes.util import find_library\n"
        "assert 'subprocess' not in sys.modules\n"
        "print(find_library('c'))\n"
        "import ctypes.util\n"
        "print(ctypes.util.find_library('c'), 'subprocess' in sys.modules)\n"
        "with lazy_ctypes_util():\n"
        "    from ctypes.util import find_library\n"
        "print(find_library is ctypes.util.find_library)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.split() == ["libc.so.6", "libc.so.6", "True", "True"], done.stderr


@pytest.mark.parametrize("module", ["readers.nvml.reader", "readers.mtml.reader", "processes.driver_files"])
def test_worker_imports_nothing_that_only_the_daemon_needs(module: str, tmp_path: Path) -> None:
    """`typing` alone would use 0.5 MiB in each worker."""
    program = (
        "import sys; before = set(sys.modules)\n"
        f"import telemetry_daemon.processes.worker_main, telemetry_daemon.{module}\n"
        "print(*set(sys.modules) - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=True)
    imported = set(done.stdout.split())
    assert f"telemetry_daemon.{module}" in imported
    assert (
        imported & {"dataclasses", "inspect", "logging", "pathlib", "subprocess", "telemetry_parsers.model", "typing"}
        == set()
    )
