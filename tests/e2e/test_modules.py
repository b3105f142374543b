"""What the running daemon has imported, on every kind of node: none more than the tables name. Memory is mostly modules."""

from __future__ import annotations

import re
import signal
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from kits.daemon import Daemon, clean_environment
from kits.fake_nvml.library import FakeNvml
from kits.fake_sysfs import Sysfs, mi210
from kits.fake_tools import ToolFolder
from kits.web_server import make_pki
from telemetry_daemon.service.unused_imports import left_out

# The daemon itself, which writes on SIGUSR1 what it has imported beyond a bare Python.
PROGRAM = """
import os, signal, sys
bare = set(sys.modules)
def tell(number, frame):
    with open({file!r} + ".new", "w") as written:
        written.write("\\n".join(sorted(set(sys.modules) - bare)))
    os.rename({file!r} + ".new", {file!r})
signal.signal(signal.SIGUSR1, tell)
from telemetry_daemon.cli import main
sys.exit(main())
"""

# Our own modules by name, of other packages the first name; those that begin with an underscore belong to these.
EVERY_NODE = """
standard library: argparse array ast asyncio atexit base64 binascii bisect calendar collections concurrent
    contextlib contextvars copy copyreg ctypes dataclasses datetime dis encodings errno fcntl fnmatch gc
    gettext glob heapq http importlib inspect ipaddress json linecache locale logging math ntpath opcode
    pathlib platform queue random re resource select selectors shlex socket string struct subprocess textwrap
    threading token tokenize traceback typing unicodedata urllib uuid warnings weakref
installed: apscheduler h11 isal
telemetry_daemon: cli deflate node times version
telemetry_daemon.commands: options playing serve
telemetry_daemon.config: about child glance inputs of_compat of_jobs of_peaks reads rules settings
telemetry_daemon.control: requests socket
telemetry_daemon.guarded: below named own_folder reading sockets trust way
telemetry_daemon.plugins: built_in candidates loading
telemetry_daemon.polling: clock cross_check missing news out_of_turn pci_bus poller releases schedule source
    threads trigger
telemetry_daemon.processes: pipes process short_lived supervise
telemetry_daemon.ranks: table watch
telemetry_daemon.readers: alternatives base command files host in_worker loader lock_holder patterns pci
    repairs run_results tool_path toollock
telemetry_daemon.recording: alarms bursts flight_recorder flights ring tap
telemetry_daemon.replay: speeds
telemetry_daemon.service: black_box daemon daemon_metrics device_nodes local_site maintenance memory operators other_names serving systemd textfile_job
    unused_imports
telemetry_daemon.site: ahead name_filter negotiation packing process_metrics regulars rendered
    routes
telemetry_daemon.state: accumulate devices_file events health history known links maintenance peaks slots store taken
telemetry_daemon.terminal: exits log streams
telemetry_daemon.web: addresses clients errors messages seldom_logger
telemetry_daemon.web.access: access_control auth channel hosts toolkit watch
telemetry_daemon.web.server: acceptor connection conversation listeners open_connections port_owner shared web_server
telemetry_daemon.workers: link targets worker
telemetry_exporters: device_view evidence families heat human json labels own past prometheus screen text thresholds verdict
telemetry_exporters.compat: peers
telemetry_parsers: bounds contract demo host maintenance metrics model ownership readings recorded sentinels states units vendor
telemetry_parsers.codec: answer captures derived plain wire
telemetry_parsers.combining: chip_places devices
telemetry_parsers.merge: admission arrangement columns doubts identity joining memory node numbering
    peaks precedence presence ranks rebuilt sightings
telemetry_parsers.peaks: lookup peak shares table
telemetry_parsers.text: answers lines
telemetry_parsers.vendors: amd cambricon enflame hygon iluvatar intel kunlunxin metax moorethreads nvidia
telemetry_parsers.vendors.ascend: rank_table
"""
NVIDIA = """
telemetry_parsers.combining: outputs
telemetry_parsers.library_answers: answers devices plain readings
telemetry_parsers.reports: draft targets
telemetry_parsers.text: echoes outputs
telemetry_parsers.vendors.nvidia.nvml: devices events library links parser processes readings tables
"""
AMD = """
telemetry_parsers.reports: draft targets
telemetry_parsers.rocm: levels
telemetry_parsers.text: prefixes
telemetry_parsers.vendors.amd.amdgpu_sysfs: blob cards kfd layouts parser polls saved topology tree values
"""
TLS = """
standard library: ssl
installed: cython_runtime yaml
telemetry_daemon.web.access: strict_yaml tls tls_channel
"""


def named(table: str) -> set[str]:
    names = set()
    for package, modules in re.findall(r"^(\S.*?): ((?:.*\n)(?:    .*\n)*)", table, re.MULTILINE):
        ours = package.startswith("telemetry_")
        names |= {f"{package}.{module}" if ours else module for module in modules.split()}
        names |= {package[: dot.start()] for dot in re.finditer(r"\.|$", package)} if ours else set()
    return names


def imported_by(running: Daemon) -> set[str]:
    """Our own modules, and the packages of others."""
    file = running.folder / "modules"
    running.signal(signal.SIGUSR1)
    running.until(file.exists)
    modules = file.read_text().split()
    file.unlink()
    named = {name if name.startswith("telemetry_") else name.partition(".")[0] for name in modules}
    return {name for name in named if not name.startswith("_")}


def daemon(folder: Path, config: str = "", environment: dict[str, str] | None = None) -> Daemon:
    command = (sys.executable, "-c", PROGRAM.format(file=str(folder / "modules")))
    return Daemon(folder, config, command=command, environment=environment or ToolFolder(folder / "tools").environment)


def until_polled(running: Daemon) -> None:
    """Wait until every source was asked and somebody saw a page."""
    running.until(lambda: all(item["state"] != "starting" for item in running.document()["sources"]))
    assert running.page()


def unexpected(running: Daemon, *tables: str) -> list[str]:
    return sorted(imported_by(running).difference(named(EVERY_NODE), *map(named, tables)))


def test_an_empty_node(tmp_path: Path) -> None:
    with daemon(tmp_path) as running:
        until_polled(running)
        assert unexpected(running) == []


@pytest.mark.needs("cc")
def test_a_node_with_nvidia_cards(tmp_path: Path) -> None:
    fake = FakeNvml(tmp_path / "nvml", "h100")
    with daemon(tmp_path, environment=dict(fake.environment)) as running:
        running.until_state("nvml", "ok")
        until_polled(running)
        assert unexpected(running, NVIDIA) == []


def test_a_node_with_amd_cards(tmp_path: Path) -> None:
    sysfs = Sysfs(tmp_path / "host")
    sysfs.card("0000:29:00.0", mi210())
    with daemon(tmp_path, f'[sources.amdgpu-sysfs]\npath = "{sysfs.root}"\n') as running:
        running.until_state("amdgpu-sysfs", "ok")
        until_polled(running)
        assert unexpected(running, AMD) == []


@pytest.mark.needs("openssl")
@pytest.mark.parametrize("configured", ["at the start", "by a reload"])
def test_tls(configured: str, tmp_path: Path) -> None:
    pki = make_pki(tmp_path)
    web = tmp_path / "web.yml"
    web.write_text(pki.tls_section())
    with_tls = f'[web]\nconfig_file = "{web}"\n'
    with daemon(tmp_path, with_tls if configured == "at the start" else "") as running:
        if configured == "by a reload":
            until_polled(running)
            running.write_config(with_tls)
            running.signal(signal.SIGHUP)
            running.until(lambda: running.logged("configuration reloaded"))
        url = f"https://{running.address}/metrics"
        with urllib.request.urlopen(url, context=pki.trusting(), timeout=30) as page:
            assert b"process_max_fds" in page.read()
        assert unexpected(running, TLS) == []


def test_the_daemon_works_with_all_that_it_leaves_out(tmp_path: Path) -> None:
    """If a newer library needs what we keep from it, nothing but memory is lost by letting it in."""
    program = """
import contextlib, sys
from telemetry_daemon.service import unused_imports
unused_imports.left_out = contextlib.nullcontext
from telemetry_daemon.cli import main
sys.exit(main())
"""
    with Daemon(tmp_path, command=(sys.executable, "-c", program)) as running:
        until_polled(running)
        assert running.stop()[0] == 0


def test_afterwards_everybody_gets_the_real_modules() -> None:
    program = """
import sys
from telemetry_daemon.service.unused_imports import left_out
with left_out():
    import apscheduler.schedulers.background, asyncio
assert asyncio.base_events.ssl is None
import concurrent.futures.process, importlib.metadata, multiprocessing, ssl, tzlocal, zoneinfo
print(importlib.metadata.version("apscheduler") >= "3", ssl.OPENSSL_VERSION != "", multiprocessing.cpu_count() > 0,
      tzlocal.get_localzone() is not None, zoneinfo.ZoneInfo is not apscheduler.util.ZoneInfo)
"""
    environment = clean_environment({"TZ": "UTC"})
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("True True True True True\n", "")


def test_what_was_imported_before_stays() -> None:
    with left_out():
        import ssl as within
    assert within is ssl
    assert sys.modules["ssl"] is ssl
