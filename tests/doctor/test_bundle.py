"""The bundle of `telemetry doctor --bundle`: everything that support needs, and no identity."""

import gzip
import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from doctor.played import Played, healthy
from kits.planted_identities import PLANTS
from kits.planted_secrets import planted_secrets
from telemetry_daemon.recordings.recording_file import RecordingFile

ALWAYS = ("CONTENTS", "doctor.txt", "doctor.json", "configuration.toml", "configuration-origins.txt")
ALWAYS += ("configuration-file.toml", "versions.txt", "machine.txt", "recording.jsonl.gz")


def test_bundle_of_a_healthy_node(tmp_path: Path) -> None:
    node = healthy(tmp_path)
    done, inside = node.bundle()
    assert (done.status, done.stderr) == (0, "")
    assert tuple(inside)[: len(ALWAYS)] == ALWAYS
    assert done.stdout.startswith(inside["CONTENTS"].decode())
    assert done.stdout.splitlines()[-1].startswith(f"written to {tmp_path}/bundle.tar.gz: ")
    assert all(f"  {name} " in done.stdout for name in inside if name != "CONTENTS")
    assert "snapshot.json, history.json, metrics.txt  missing: no daemon" in done.stdout
    assert (tmp_path / "bundle.tar.gz").stat().st_mode & 0o777 == 0o600
    assert "driver amdgpu" in inside["versions.txt"].decode()
    assert "card 0000:03:00.0 amd class 120000 driver amdgpu" in inside["machine.txt"].decode()
    (tmp_path / "again.jsonl").write_bytes(inside["recording.jsonl.gz"])
    assert "amdgpu-sysfs" in {capture.source for capture in RecordingFile(tmp_path / "again.jsonl")}


def test_bundle_contains_the_newest_flight_files(tmp_path: Path) -> None:
    node = healthy(tmp_path)
    folder = tmp_path / "state" / "flights"
    folder.mkdir(parents=True, mode=0o700)
    names = [f"2026111{day}T110640Z-xid_{day}.jsonl.gz" for day in range(5)]
    for name in names:
        (folder / name).write_bytes(gzip.compress(name.encode()))
    printed, inside = node.bundle()
    assert (printed.status, printed.stdout.count("flight recorder: xid_")) == (0, 3)
    assert [name for name in inside if name.startswith("flights/")] == [f"flights/{name}" for name in names[:1:-1]]
    assert inside[f"flights/{names[4]}"] == names[4].encode()
    output = "".join(node.doctor().stdout.split())
    assert all(f"telemetrytop--replay{folder}/{name}" in output for name in names)
    assert [flight["name"] for flight in node.document()[1]["flights"]] == names[::-1]


TOKENS = planted_secrets()
SECRETS = sorted({secret for plant in PLANTS for secret in plant.secrets} | {token.secret for token in TOKENS})


def with_identities_everywhere(node: Played) -> None:
    """Plant identities in tools, configuration, comments, web configuration, unit, journal and environment."""
    texts = [plant.text for plant in PLANTS]
    tokens = [token.text for token in TOKENS]
    lines = "\n".join([*texts, *tokens])
    node.tools.prints("mthreads-gmi", f"{lines}\n", stderr=lines, status=1)
    node.tools.prints("cnmon", lines)
    listing = "\n".join([*(f"Sep 01 10:00:00 telemetry[1]: {text}" for text in texts), *tokens])
    node.tools.prints("journalctl", listing)
    environment = "Environment=DB=Hunter2xyzzy 'PEER=zebrahost' \"OWNER=marlowe\"\n"
    node.tools.prints("systemctl", f"{environment}{lines}\nLoadState=loaded\nActiveState=activating\n")
    web = node.folder / "web.yml"
    web.write_text("basic_auth_users:\n  marlowe: Hunter2xyzzy\nheaders:\n  X-Owner: zebrahost\n")
    comments = "".join(f"# {text}\n" for text in texts if "\n" not in text)
    node.config = (
        f'[web]\nallowed_hosts = ["zebrahost.corp.example", "marlowe.example"]  # Hunter2xyzzy\nconfig_file = "{web}"\n'
        f'[export.textfile]\npath = "/mnt/nfs/marlowe/telemetry.prom"\n{comments}'
    )
    node.environment |= {"SUDO_USER": "marlowe", "TELEMETRY_PASSWORD": "Hunter2xyzzy", "TELEMETRY_USER": "marlowe"}


def test_bundle_contains_no_identity(tmp_path: Path) -> None:
    node = healthy(tmp_path)
    with_identities_everywhere(node)
    done, inside = node.bundle()
    assert {"journal.txt", "unit.txt", "web.txt"} <= set(inside)
    assert "basic_auth_users: 1 removed" in inside["web.txt"].decode()
    assert "DB=removed" in inside["unit.txt"].decode()
    left = {
        name: [secret for secret in SECRETS if secret.lower() in content.decode("utf-8", "replace").lower()]
        for name, content in {**inside, "printed": done.stdout.encode()}.items()
    }
    assert {name: secrets for name, secrets in left.items() if secrets} == {}


PLANTED: dict[str, Callable[[Path], object]] = {
    "a link": lambda path: path.symlink_to("telemetry.toml"),
    "a pipe": os.mkfifo,
    "another file": lambda path: path.write_bytes(gzip.compress(b"keep me")),
}


def place_of(path: Path) -> tuple[int, ...]:
    status = path.lstat()
    return status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns


@pytest.mark.parametrize(
    "plant",
    [
        pytest.param(plant, id=name, marks=pytest.mark.long if name == "a pipe" else ())
        for name, plant in PLANTED.items()
    ],
)
def test_file_that_is_no_bundle_is_kept(tmp_path: Path, plant: Callable[[Path], object]) -> None:
    path = tmp_path / "bundle.tar.gz"
    plant(path)
    before = place_of(path)
    done = healthy(tmp_path).doctor("--bundle", str(path))
    assert (done.status, done.stdout, done.stderr.count("\n")) == (69, "", 1)
    assert f"cannot write to {path}: " in done.stderr
    assert place_of(path) == before
    assert "[state]" in (tmp_path / "telemetry.toml").read_text()


def test_earlier_bundle_is_replaced_atomically(tmp_path: Path) -> None:
    """A full disk leaves the earlier bundle, and no partial file."""
    node = healthy(tmp_path)
    node.bundle()
    path = tmp_path / "bundle.tar.gz"
    first = path.stat().st_ino
    node.bundle()
    assert path.stat().st_ino != first
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2048, limits[1]))
    try:
        done = node.doctor("--bundle", str(path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (done.status, done.stdout, done.stderr.count("\n")) == (69, "", 1), done.stderr
    assert "free space" in done.stderr
    assert path.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".bundle")] == []
