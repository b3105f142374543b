"""What a worker that asks NVML costs, in counts: modules, functions of Python for a poll, wake-ups."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from kits.fake_nvml.library import FakeNvml
from kits.fake_nvml.reader import TIERS, Bench, reading
from kits.waiting import comes_true
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.readers.in_worker import WorkerReader
from telemetry_daemon.readers.nvml.events import WAIT_MILLISECONDS
from telemetry_daemon.readers.nvml.gpm import SHORTEST_SECONDS
from telemetry_parsers.model import Library, Plain, Poll

pytestmark = pytest.mark.needs("cc")

# Those that begin with an underscore belong to one of these.
STANDARD_LIBRARY = """
collections collections.abc contextlib copyreg ctypes ctypes._endian enum errno functools importlib importlib._abc
importlib._bootstrap importlib._bootstrap_external importlib.machinery importlib.util itertools json json.decoder
json.encoder json.scanner keyword math operator re re._casefix re._compiler re._constants re._parser reprlib runpy signal
string struct threading types typing typing.io typing.re warnings weakref
"""
OURS = """
telemetry_daemon telemetry_daemon.guarded telemetry_daemon.guarded.reading
telemetry_daemon.readers telemetry_daemon.readers.binding
telemetry_daemon.workers telemetry_daemon.workers.targets
telemetry_parsers telemetry_parsers.codec telemetry_parsers.codec.answer telemetry_parsers.codec.plain telemetry_parsers.library
"""
NVML = "asker calls codes events fabric fans fields gpm gpu instance late_find_library library links process_use processes reader session"
TELLING = "telling_reader"


def told(bench: Bench, what: str) -> Plain:
    """What tests/nvml/telling_reader.py tells of its process."""
    poll = Poll(what, Library("nvml", (what,)))
    return WorkerReader("nvml", bench.worker).read(poll, Targets()).outputs[0].data


def test_a_worker_that_asks_nvml_has_imported_no_more_than_this(tmp_path: Path) -> None:
    bare = subprocess.run([sys.executable, "-c", "import sys; print(*sys.modules)"], capture_output=True, text=True)
    with reading(FakeNvml(tmp_path, "h100"), TELLING) as bench:
        for tier in TIERS:
            bench.data(tier)
        modules = told(bench, "modules")
    found = {name for name in set(modules) - set(bare.stdout.split()) if not name.startswith("_")}
    nvml = {f"telemetry_daemon.readers.nvml.{name}" for name in NVML.split()} | {"telemetry_daemon.readers.nvml"}
    expected = {*STANDARD_LIBRARY.split(), *OURS.split(), *nvml, "pynvml", f"telemetry_plugin_{TELLING}"}
    assert found - expected == set()


def test_ctypes_util_is_the_real_one_for_whoever_wants_it(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(("profile", "most"), [("h100", 205), ("vgpu", 140), ("jetson", 100)])
def test_a_fast_poll_calls_few_functions_of_python_for_each_gpu(profile: str, most: int, tmp_path: Path) -> None:
    fake = FakeNvml(tmp_path, profile)
    with reading(fake, TELLING) as bench:
        for tier in TIERS:
            bench.data(tier)
        gpus = len(bench.data()["gpus"])
        time.sleep(2 * SHORTEST_SECONDS)  # sooner, what the card counted since the poll before would not be asked for
        assert told(bench, "functions") / gpus <= most


def test_the_thread_that_waits_for_events_wakes_two_or_three_times_a_second(bench: Bench) -> None:
    """A driver answers when something comes, so that the pauses are ours."""
    bench.report()
    begun, waits = time.monotonic(), bench.fake.calls("nvmlEventSetWait_v2")
    assert comes_true(lambda: bench.fake.calls("nvmlEventSetWait_v2") >= waits + 4)
    assert time.monotonic() - begun >= 3 * WAIT_MILLISECONDS / 1000 * 0.95
    assert WAIT_MILLISECONDS >= 400
