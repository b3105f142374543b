"""The Debian package's parts; `make test-systemd` builds it and runs it under a real systemd."""

import re
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest

from kits.captures import ROOT

FOLDER = ROOT / "deploy/debian"


def test_everything_that_is_packed_is_in_the_checkout() -> None:
    packed = re.findall(r"^ *put \d+ (deploy/\S+) /", (FOLDER / "build.sh").read_text(), flags=re.MULTILINE)
    assert len(packed) >= 4
    assert [name for name in packed if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize("state", ["/etc/telemetry", "/var/lib/telemetry", "/run/telemetry", "/opt/device-telemetry"])
def test_a_purge_removes_every_folder_that_is_ours(state: str) -> None:
    removed = re.findall(r"^ *rm -rf (.*)$", (FOLDER / "postrm").read_text(), flags=re.MULTILINE)
    assert state in " ".join(removed).split()


def test_the_copyright_file_names_all_that_is_bundled() -> None:
    done = subprocess.run([sys.executable, str(FOLDER / "copyright.py")], capture_output=True, text=True, check=True)
    named = {line.split(" ")[0]: line for line in done.stdout.splitlines() if re.match(r"\S+ \S+: ", line)}
    assert set(named) == {found.name for found in distributions()} - {"device-telemetry"}
    assert named["h11"].endswith(": MIT")
    assert "Apache License" in done.stdout


@pytest.mark.needs("dpkg-deb", "root")
def test_a_removal_leaves_an_empty_opt_where_it_was(tmp_path: Path) -> None:
    root, node, package = tmp_path / "root", tmp_path / "node", tmp_path / "small.deb"
    (root / "DEBIAN").mkdir(parents=True)
    (root / "DEBIAN/control").write_text(
        "Package: small\nVersion: 1\nArchitecture: all\nMaintainer: a <a@localhost>\nDescription: a\n"
    )
    (root / "opt/small").mkdir(parents=True)
    (root / "opt/small/file").write_text("file\n")
    (node / "var/lib/dpkg/updates").mkdir(parents=True)
    (node / "var/lib/dpkg/info").mkdir()
    for name in ("var/lib/dpkg/status", "var/lib/dpkg/available"):
        (node / name).touch()
    (node / "opt").mkdir()
    dpkg = ["dpkg", f"--root={node}", "--force-script-chrootless", f"--log={tmp_path}/log"]
    for command in (
        ["dpkg-deb", "-Zxz", "--build", str(root), str(package)],
        [sys.executable, str(FOLDER / "without_opt.py"), str(package)],
        [*dpkg, "--install", str(package)],
    ):
        subprocess.run(command, check=True, capture_output=True)
    assert (node / "opt/small/file").read_text() == "file\n"
    subprocess.run([*dpkg, "--purge", "small"], check=True, capture_output=True)
    assert [path.name for path in (node / "opt").iterdir()] == []
