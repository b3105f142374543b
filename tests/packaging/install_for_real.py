"""Real installations: bundle, checkout, pipx. `make test-install` runs it; it needs a package index.

The offline bundle is installed without any network, with every Python of this machine for which it has wheels.
"""

import os
import platform
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from kits.captures import ROOT
from kits.ports import free_port
from telemetry_daemon.version import __version__

BUNDLE = ROOT / "build" / f"device-telemetry-{__version__}-offline-{platform.machine()}.tar.gz"
VENV = "opt/device-telemetry/venv"
PYTHONS = ("python3.10", "python3.11", "python3.12", "python3.13", "/usr/bin/python3")
# A network without any interface that is up; only root may make one.
NO_NETWORK = ("unshare", "--net") if os.geteuid() == 0 else ()

pytestmark = pytest.mark.timeout(600)


def pythons() -> Iterator[str]:
    for name in filter(shutil.which, PYTHONS):
        if not subprocess.run(
            [name, "-c", "import sys; sys.exit(sys.version_info < (3, 10))"], stderr=subprocess.DEVNULL
        ).returncode:
            yield name


def run(*command: object, environment: Mapping[str, object] | None = None) -> str:
    more = {name: str(value) for name, value in (environment or {}).items()}
    done = subprocess.run(list(map(str, command)), env=os.environ | more, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle")
    with tarfile.open(BUNDLE) as bundle:
        bundle.extractall(folder, filter="data")
    (made,) = folder.iterdir()
    return made


def staged(node: Path) -> tuple[Path, ...]:
    """Install the program in a staging root; its first line names the Python of the final root."""
    return node / VENV / "bin/python", node / VENV / "bin/telemetry"


def demo_scrape(program: Sequence[Path], folder: Path) -> str:
    port = free_port()
    environment = os.environ | {
        "TELEMETRY_STATE_DIRECTORY": str(folder / "lib"),
        "TELEMETRY_STATE_RUNTIME_DIRECTORY": str(folder / "run"),
        "TELEMETRY_WEB_LISTEN_ADDRESS": f"127.0.0.1:{port}",
    }
    daemon = subprocess.Popen(
        [*program, "serve", "--demo", "2xnvidia,1xascend"], env=environment, stderr=subprocess.DEVNULL
    )
    try:
        line = ["curl", "--silent", "--fail", "--retry", "60", "--retry-delay", "1", "--retry-all-errors"]
        run(*line, f"http://127.0.0.1:{port}/readyz")
        return run(*line, f"http://127.0.0.1:{port}/metrics")
    finally:
        daemon.terminate()
        daemon.wait(30)


@pytest.mark.parametrize("python", list(pythons()))
def test_the_bundle_installs_without_a_network(unpacked: Path, tmp_path: Path, python: str) -> None:
    node = tmp_path / "node"
    node.mkdir()
    install = (*NO_NETWORK, unpacked / "install.sh", "--python", python)
    destination = {"DESTDIR": node, "PIP_NO_INDEX": "", "PIP_FIND_LINKS": ""}
    assert f"installed: telemetry {__version__} " in run(*install, environment=destination)
    assert run(*install, environment=destination).endswith("nothing was changed\n")
    page = demo_scrape(staged(node), tmp_path)
    assert page.count("\naccelerator_power_watts{") == 3
    run(*install, "--purge", environment=destination)
    assert [path for path in node.rglob("*") if not path.is_dir()] == []


def test_pipx_takes_the_wheel(unpacked: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", tmp_path / "tools")
    run(tmp_path / "tools/bin/python", "-m", "pip", "install", "--quiet", "pipx")
    pipx = tmp_path / "tools/bin/pipx"
    folders = {name: tmp_path / name.lower() for name in ("PIPX_HOME", "PIPX_BIN_DIR", "PIPX_MAN_DIR")}
    (wheel,) = (unpacked / "wheels").glob("device_telemetry-*.whl")
    run(pipx, "install", "--python", sys.executable, wheel, environment=folders)
    program = folders["PIPX_BIN_DIR"] / "telemetry"
    assert run(program, "version").startswith(f"telemetry {__version__} ")
    assert [path.name for path in folders["PIPX_BIN_DIR"].iterdir()] == ["telemetry"]
    assert (folders["PIPX_MAN_DIR"] / "man1/telemetry.1").read_text() == (ROOT / "deploy/man/telemetry.1").read_text()
    assert "\naccelerator_up{" in demo_scrape([program], tmp_path)
    run(pipx, "uninstall", "device-telemetry", environment=folders)
    assert not program.exists()
