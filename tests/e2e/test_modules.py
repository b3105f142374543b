"""The running daemon has imported nothing that it does not need: memory is mostly modules."""

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
from kits.waiting import PATIENCE_SECONDS
from kits.web_server import make_pki
from telemetry_daemon.service.unused_imports import replace_unused_imports

# The daemon, which writes its imported modules on SIGUSR1.
PROGRAM = """
import os, signal, sys
def tell(number, frame):
    with open({file!r} + ".new", "w") as written:
        written.write("\\n".join(sys.modules))
    os.rename({file!r} + ".new", {file!r})
signal.signal(signal.SIGUSR1, tell)
from telemetry_daemon.cli import main
sys.exit(main())
"""
# Modules of other packages, and own modules that only commands, workers, demos and replays need.
_UNUSED = """cython_runtime email google grpc h2 hpack multiprocessing numpy optparse platform pydantic
    pynvml random sqlite3 ssl unittest uuid yaml
    device_telemetry telemetry_grafana telemetry_daemon.completion telemetry_daemon.doctor telemetry_daemon.masking
    telemetry_profile telemetry_daemon.simulate telemetry_daemon.top"""
UNUSED = frozenset(_UNUSED.split())
OF_OWNERS = {"telemetry_parsers.owners", "telemetry_daemon.readers.jobs", "telemetry_daemon.state.attribution"}


def imported_by(running: Daemon) -> set[str]:
    """Return all imported modules and their packages."""
    file = running.folder / "modules"
    running.signal(signal.SIGUSR1)
    running.until(file.exists)
    return {".".join(name.split(".")[:depth]) for name in file.read_text().split() for depth in (1, 2, 3)}


def until_polled(running: Daemon) -> None:
    """Wait until every source was asked and a page was read."""
    running.until(lambda: running.get("/readyz")[0] == 200)
    running.until(lambda: all(item["state"] != "starting" for item in running.document()["sources"]))
    assert running.page()


@pytest.mark.needs("cc")
@pytest.mark.parametrize("reports_owners", [False, True])
def test_daemon_with_cards_imports_few_modules(tmp_path: Path, reports_owners: bool) -> None:
    """With attribution, HTTP/2 is imported only if there is a kubelet."""
    fake, sysfs = FakeNvml(tmp_path / "nvml", "h100"), Sysfs(tmp_path / "host")
    sysfs.card("0000:29:00.0", mi210())
    config = f'[sources.amdgpu-sysfs]\npath = "{sysfs.root}"\n[sources.kubelet]\npath = "{tmp_path}/nowhere"\n'
    config += f"[attribution]\nenabled = {str(reports_owners).lower()}\n"
    command = (sys.executable, "-c", PROGRAM.format(file=str(tmp_path / "modules")))
    with Daemon(tmp_path, config, command=command, environment=dict(fake.environment)) as running:
        running.until_state("nvml", "ok")
        running.until_state("amdgpu-sysfs", "ok")
        until_polled(running)
        imported = imported_by(running)
        assert imported & UNUSED == set()
        assert bool(imported & OF_OWNERS) == reports_owners
        assert_tls_works_after_a_reload(running)


def assert_tls_works_after_a_reload(running: Daemon) -> None:
    """A module that was left out is imported when it is needed."""
    pki = make_pki(running.folder)
    web = running.folder / "web.yml"
    web.write_text(pki.tls_section())
    running.write_config(f'[web]\nconfig_file = "{web}"\n')
    running.signal(signal.SIGHUP)
    running.until(lambda: running.logged("configuration reloaded"))
    url = f"https://{running.address}/metrics"
    with urllib.request.urlopen(url, context=pki.trusting(), timeout=PATIENCE_SECONDS) as page:
        assert b"process_max_fds" in page.read()


def test_daemon_works_with_all_imports(tmp_path: Path) -> None:
    """If a newer library needs a replaced module, only memory is lost by importing it."""
    program = """
import contextlib, sys
from telemetry_daemon.service import unused_imports
unused_imports.replace_unused_imports = contextlib.nullcontext
from telemetry_daemon.cli import main
sys.exit(main())
"""
    with Daemon(tmp_path, command=(sys.executable, "-c", program)) as running:
        until_polled(running)
        assert running.stop()[0] == 0


def test_replaced_modules_are_restored() -> None:
    program = """
import sys
from telemetry_daemon.service.unused_imports import replace_unused_imports
with replace_unused_imports():
    import apscheduler.schedulers.background, asyncio
assert asyncio.base_events.ssl is None
import concurrent.futures.process, importlib.metadata, multiprocessing, ssl, tzlocal, zoneinfo
print(importlib.metadata.version("apscheduler") >= "3", ssl.OPENSSL_VERSION != "", multiprocessing.cpu_count() > 0,
      tzlocal.get_localzone() is not None, zoneinfo.ZoneInfo is not apscheduler.util.ZoneInfo)
"""
    environment = clean_environment({"TZ": "UTC"})
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("True True True True True\n", "")


def test_earlier_imports_are_kept() -> None:
    with replace_unused_imports():
        import ssl as within
    assert within is ssl
    assert sys.modules["ssl"] is ssl
