"""What `telemetry doctor --bundle` hands over: all that support needs of each fault, and no identity."""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

import jsonschema
import pytest

from doctor.played import SCHEMA, Played
from doctor.test_command import (
    container_without_devices,
    healthy,
    with_a_card_that_is_not_listed,
    with_a_plugin_that_fails,
    with_a_state_folder_for_all,
    with_a_tool_that_fails,
    with_a_unit_that_failed,
    without_a_driver,
    without_its_tool,
    without_rights,
)
from kits.daemon import Daemon, clean_environment
from kits.planted_identities import PLANTS
from telemetry_daemon.replay.tape import Tape

ALWAYS = ("CONTENTS", "doctor.txt", "doctor.json", "configuration.toml", "configuration-origins.txt")
ALWAYS += ("configuration-file.toml", "versions.txt", "machine.txt", "recording.jsonl.gz")


def members(path: Path) -> dict[str, bytes]:
    """The content of each member by its name, in order; what is packed in it unpacked."""
    with tarfile.open(path) as archive:
        found = {one.name: archive.extractfile(one) for one in archive}
        contents = {name: file.read() for name, file in found.items() if file is not None}
    shown = {name.removeprefix("telemetry-doctor/"): content for name, content in contents.items()}
    return {name: gzip.decompress(content) if name.endswith(".gz") else content for name, content in shown.items()}


def bundle_of(node: Played) -> tuple[int, str, dict[str, bytes]]:
    said = node.doctor("--bundle", str(node.folder / "bundle.tar.gz"))
    assert said.errors == ""
    return said.status, said.output, members(node.folder / "bundle.tar.gz")


def findings(inside: Mapping[str, bytes]) -> str:
    plain = json.loads(inside["doctor.json"])
    jsonschema.Draft202012Validator(SCHEMA).validate(plain)
    return " ".join(f"{one['where']}: {one['what']} {one['remedy']}" for one in plain["findings"])


def recorded(node: Played) -> dict[str, set[str]]:
    """The texts of all captures of each source; they can be played."""
    path = node.folder / "again.jsonl"
    path.write_bytes(members(node.folder / "bundle.tar.gz")["recording.jsonl.gz"])
    texts: dict[str, set[str]] = {}
    for capture in Tape(path):
        parts = texts.setdefault(capture.source, set())
        parts.update(part for output in capture.outputs for part in (output.text, output.stderr))
        if capture.failure is not None:
            parts.add(capture.failure.text)
    return texts


def test_a_healthy_node(tmp_path: Path) -> None:
    """Its list is printed first, is the first member, and names all that is in it."""
    node = healthy(tmp_path)
    status, said, inside = bundle_of(node)
    assert status == 0
    assert tuple(inside)[: len(ALWAYS)] == ALWAYS
    assert said.startswith(inside["CONTENTS"].decode())
    assert said.splitlines()[-1].startswith(f"written to {tmp_path}/bundle.tar.gz: ")
    assert all(f"  {name} " in said for name in inside if name != "CONTENTS")
    assert "snapshot.json, history.json, metrics.txt  not there: no daemon" in said
    assert (tmp_path / "bundle.tar.gz").stat().st_mode & 0o777 == 0o600
    assert "driver amdgpu" in inside["versions.txt"].decode()
    assert "card 0000:03:00.0 amd class 120000 driver amdgpu" in inside["machine.txt"].decode()
    assert "amdgpu-sysfs" in recorded(node)


def with_a_tool_that_hangs(node: Played) -> None:
    node.tools.hangs("cnmon")
    node.config = "[sources.cnmon]\ndeadline = 0.5\n"


def with_a_tool_that_prints_too_much(node: Played) -> None:
    node.tools.script("cnmon", "yes | head -c 9000000")


def with_a_tool_that_is_killed(node: Played) -> None:
    node.tools.script("cnmon", "kill -KILL $$")


def with_words_that_nobody_knows(node: Played) -> None:
    node.tools.prints("cnmon", "a page of a version to come\n")


def with_a_driver_that_is_gone(node: Played) -> None:
    node.tools.prints("mthreads-gmi", "Error: failed to initialize mtml: driver not loaded\n", status=1)


def with_a_library_of_another_version(node: Played) -> None:
    node.tools.prints("ixsmi", "error while loading shared libraries: libixml.so: cannot open\n", status=127)


def with_a_tool_that_another_process_holds(node: Played) -> None:
    """As one that hangs in the driver does: it has inherited the lock."""
    node.tools.prints("cnmon", "")
    node.config = "[sources.cnmon]\ndeadline = 0.5\n"
    locks = node.folder / "run" / "locks"
    locks.mkdir(parents=True, mode=0o700)
    node.held = (locks / "cnmon.lock").open("w")
    fcntl.flock(node.held, fcntl.LOCK_EX)


def with_a_mistake_in_the_configuration(node: Played) -> None:
    node.config = '[log]\nlevle = "debug"\n'


# Each fault of docs/troubleshooting.md: what plays it, what the finding says, and what else support must find, by its member.
FAULTS: list[tuple[Callable[[Played], None], str, dict[str, str]]] = [
    (with_a_tool_that_hangs, "cnmon: failed (timeout)", {"recording.jsonl.gz": '"timeout"', "versions.txt": "cnmon"}),
    (with_a_tool_that_fails, "cnmon: failed (exit_status)", {"recording.jsonl.gz": "boom", "versions.txt": "cnmon"}),
    (with_words_that_nobody_knows, "cnmon: failed (not_understood)", {"recording.jsonl.gz": "a version to come"}),
    (with_a_driver_that_is_gone, "mthreads-gmi: failed (driver_gone)", {"recording.jsonl.gz": "driver not loaded"}),
    (with_a_tool_that_prints_too_much, "cnmon: failed (too_much_output)", {"recording.jsonl.gz": "MiB"}),
    (with_a_tool_that_is_killed, "cnmon: failed (killed)", {"doctor.txt": "out of memory"}),
    (with_a_library_of_another_version, "ixsmi: failed (library_mismatch)", {"recording.jsonl.gz": "libixml.so"}),
    (with_a_tool_that_another_process_holds, "cnmon: stuck", {"doctor.txt": "another process runs it"}),
    (without_rights, "no_permission", {"machine.txt": "refused: Permission denied", "recording.jsonl.gz": "mtgpu.0"}),
    (without_a_driver, "no kernel driver", {"machine.txt": "card 0000:09:00.0 nvidia class 030200 driver none"}),
    (
        without_its_tool,
        "mtml not found",
        {"machine.txt": "node crw-r--r-- root root /dev/mtgpu.0", "doctor.txt": "PATH"},
    ),
    (with_a_card_that_is_not_listed, "not listed", {"machine.txt": "0000:09:00.0 amd"}),
    (container_without_devices, "there is no /dev/nvidiactl", {"machine.txt": "container: Docker"}),
    (with_a_plugin_that_fails, "not loaded", {"configuration.toml": "[parsers]"}),
    (with_a_state_folder_for_all, "can be written by others", {"machine.txt": "folder state.directory"}),
    (with_a_unit_that_failed, "status 78", {"unit.txt": "ActiveState=failed"}),
    (with_a_mistake_in_the_configuration, "log.levle", {"configuration-file.toml": "levle"}),
]


@pytest.mark.parametrize(("spoil", "finding", "checklist"), FAULTS, ids=[spoil.__name__ for spoil, _, _ in FAULTS])
def test_support_finds_each_fault(
    tmp_path: Path, spoil: Callable[[Played], None], finding: str, checklist: dict[str, str]
) -> None:
    with contextlib.closing(healthy(tmp_path)) as node:
        spoil(node)
        status, _, inside = bundle_of(node)
    assert status == 2
    assert set(ALWAYS) <= set(inside)
    assert finding in findings(inside)
    assert finding.rpartition(": ")[2] in " ".join(inside["doctor.txt"].decode().split())
    assert recorded(node)
    assert {name: text in inside[name].decode() for name, text in checklist.items()} == dict.fromkeys(checklist, True)


def own_captures(inside: Mapping[str, bytes]) -> int:
    """How many captures the doctor's own reading has: one of each poll."""
    return sum(len(one["polls"]) for one in json.loads(inside["doctor.json"])["sources"])


def test_beside_a_daemon_its_view_is_in_it(tmp_path: Path) -> None:
    """Readings, history and page: the numbers as they are, the cards' own numbers masked, the same everywhere."""
    node = healthy(tmp_path)
    daemon = Daemon(tmp_path, f'[sources.amdgpu-sysfs]\npath = "{node.root}"\n')
    with daemon:
        daemon.until_state("amdgpu-sysfs", "ok")
        uuid = daemon.document()["devices"][0]["uuid"]
        page = daemon.page()
        status, said, inside = bundle_of(node)
    assert (status, "not there: no daemon" in said) == (0, False), said
    shown = json.loads(inside["snapshot.json"])
    assert [one["model"] for one in shown["devices"]] == ["AMD INSTINCT MI210"] * 2
    assert [one["bus_id"] for one in shown["devices"]] == ["0000:03:00.0", "0000:04:00.0"]
    assert json.loads(inside["history.json"])["schema"] == "telemetry.history/1"
    masked_page = inside["metrics.txt"].decode()
    assert masked_page.count("\n") > 100
    assert "accelerator_power_watts{" in masked_page
    assert "captures before" in said
    assert len(inside["recording.jsonl.gz"].splitlines()) > own_captures(inside)
    stand_in = shown["devices"][0]["uuid"]
    assert (uuid in page, stand_in in masked_page, stand_in != uuid) == (True, True, True)
    for content in inside.values():
        assert uuid.encode() not in content
        assert b"692251000123" not in content


def test_the_newest_flight_files_are_in_it(tmp_path: Path) -> None:
    """The doctor lists all, for people and programs; three go into the bundle as they are."""
    node = healthy(tmp_path)
    folder = tmp_path / "state" / "flights"
    folder.mkdir(parents=True, mode=0o700)
    names = [f"2026111{day}T110640Z-xid_{day}.jsonl.gz" for day in range(5)]
    for name in names:
        (folder / name).write_bytes(gzip.compress(name.encode()))
    status, said, inside = bundle_of(node)
    assert (status, said.count("flight recorder: xid_")) == (0, 3)
    assert [name for name in inside if name.startswith("flights/")] == [f"flights/{name}" for name in names[:1:-1]]
    assert inside[f"flights/{names[4]}"] == names[4].encode()
    told = "".join(node.doctor().output.split())
    assert all(f"telemetrytop--replay{folder}/{name}" in told for name in names)
    assert [one["name"] for one in node.document()[1]["flights"]] == names[::-1]


SECRETS = sorted({secret for plant in PLANTS for secret in plant.secrets})


def with_identities_everywhere(node: Played) -> None:
    """In what the tools say, the configuration, its comments, the web configuration, the unit, its journal and the environment."""
    texts = [plant.text for plant in PLANTS]
    lines = "\n".join(texts)
    node.tools.prints("mthreads-gmi", f"{lines}\n", stderr=lines, status=1)
    node.tools.prints("cnmon", lines)
    listing = "\n".join(f"Sep 01 10:00:00 telemetry[1]: {text}" for text in texts)
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


def test_no_identity_is_in_it(tmp_path: Path) -> None:
    node = healthy(tmp_path)
    with_identities_everywhere(node)
    _, said, inside = bundle_of(node)
    assert {"journal.txt", "unit.txt", "web.txt"} <= set(inside)
    assert "basic_auth_users: 1 removed" in inside["web.txt"].decode()
    assert "DB=removed" in inside["unit.txt"].decode()
    left = {
        name: [secret for secret in SECRETS if secret.lower() in content.decode("utf-8", "replace").lower()]
        for name, content in {**inside, "said": said.encode()}.items()
    }
    assert {name: secrets for name, secrets in left.items() if secrets} == {}


@pytest.mark.parametrize("kind", ["a link", "a folder", "a pipe", "another file"])
def test_what_is_no_bundle_is_left_alone(tmp_path: Path, kind: str) -> None:
    path, target = tmp_path / "bundle.tar.gz", tmp_path / "target"
    target.write_text("keep me")
    if kind == "a link":
        path.symlink_to(target)
    elif kind == "a folder":
        path.mkdir()
    elif kind == "a pipe":
        os.mkfifo(path)
    else:
        path.write_bytes(gzip.compress(b"keep me"))
    before = path.lstat()
    said = healthy(tmp_path).doctor("--bundle", str(path))
    assert (said.status, said.output, said.errors.count("\n")) == (69, "", 1)
    assert f"cannot write to {path}: " in said.errors
    assert (path.lstat().st_ino, path.lstat().st_mode, target.read_text()) == (before.st_ino, before.st_mode, "keep me")


def test_an_earlier_bundle_is_replaced(tmp_path: Path) -> None:
    node = healthy(tmp_path)
    bundle_of(node)
    first = (tmp_path / "bundle.tar.gz").stat().st_ino
    bundle_of(node)
    assert (tmp_path / "bundle.tar.gz").stat().st_ino != first
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".bundle")] == []


def test_no_folder_for_it(tmp_path: Path) -> None:
    said = healthy(tmp_path).doctor("--bundle", str(tmp_path / "none" / "bundle.tar.gz"))
    assert (said.status, said.output, said.errors.count("\n")) == (69, "", 1)


def test_a_disk_without_room_keeps_the_bundle_of_before(tmp_path: Path) -> None:
    """Nothing half written is left; what there was stays."""
    node = healthy(tmp_path)
    bundle_of(node)
    path = tmp_path / "bundle.tar.gz"
    before = path.read_bytes()
    limit = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    limit += "resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048)); "
    code = limit + "from telemetry_daemon import cli; import sys; sys.exit(cli.main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "doctor", "--bundle", str(path), "--config", str(node.config_path)],
        env=clean_environment({"PATH": node.tools.search_path}),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (69, "", 1), done.stderr
    assert "with room" in done.stderr
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".bundle")] == []
