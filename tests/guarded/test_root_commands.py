"""The service's user plants links, pipes and folders where it may write; no command run by root changes other files."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from kits.command_line import run_main
from kits.daemon import Daemon, clean_environment
from kits.fake_tools import ToolFolder
from kits.tool_node import TOOL, TOOL_CONFIG, tool_text
from kits.waiting import PATIENCE_SECONDS
from telemetry_daemon.guarded.own_folder import OwnFolder
from telemetry_daemon.state import devices_file
from telemetry_daemon.state.devices_file import StoredDevices
from telemetry_parsers.model import Identity

pytestmark = pytest.mark.needs("root")

SERVICE = 65534
LOST = Identity("GPU-1", "nvidia", "0", "X", lost_since=1.7e9)
# All names that the daemon creates in the folders, now or in earlier releases.
NAMES = (
    "devices.json",
    "control.sock",
    "local.sock",
    "denied-nodes",
    "telemetry.prom",
    "web.sock",
    f"{TOOL}.lock",
    "recording.jsonl",
)


class Node:
    """A node whose service user owns its folders; `outside` must stay untouched."""

    def __init__(self, folder: Path) -> None:
        folder.chmod(0o755)
        self.folder = folder
        self.outside = folder / "outside"
        self.outside.mkdir(mode=0o755)
        for name in NAMES:
            (self.outside / name).write_text(json.dumps({"schema": "telemetry.capture/1", "secret": name}) + "\n")
            (self.outside / name).chmod(0o600)
        self.owned = [folder / name for name in ("state", "run", "collector")]
        for subfolder in self.owned:
            subfolder.mkdir(mode=0o755)
            os.chown(subfolder, SERVICE, SERVICE)
        (folder / "shared").mkdir()
        (folder / "shared").chmod(0o1777)
        self.tools = ToolFolder(folder / "tools")
        self.tools.prints(TOOL, tool_text())
        self.config = (
            f'[state]\ndirectory = "{folder}/state"\nruntime_directory = "{folder}/run"\n'
            f'[export.textfile]\npath = "{folder}/collector/telemetry.prom"\ninterval = 1.0\n' + TOOL_CONFIG
        )
        (folder / "telemetry.toml").write_text(self.config)

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": self.tools.search_path, "TMPDIR": str(self.folder / "shared")}

    def remember(self) -> None:
        devices_file.save(devices_file.path_in(str(self.folder / "state")), StoredDevices((LOST,)))

    def picture(self) -> dict[str, tuple[object, ...]]:
        """Return owner, mode, content and modification time of everything outside."""
        found = {}
        for path in sorted([self.outside, *self.outside.rglob("*")]):
            status = path.lstat()
            content = path.read_bytes() if path.is_file() else b""
            found[path.name] = (status.st_uid, status.st_gid, status.st_mode, status.st_mtime_ns, content)
        return found

    def command(self, *arguments: str) -> tuple[int, str, str]:
        return run_main(*arguments, "--config", str(self.folder / "telemetry.toml"), environment=self.environment)


@pytest.fixture
def node() -> Iterator[Node]:
    with tempfile.TemporaryDirectory() as folder:
        yield Node(Path(folder))


def in_each(node: Node, plant: Callable[[Path, Path], None]) -> None:
    for folder in (*node.owned, node.folder / "shared"):
        for name in NAMES:
            with suppress(FileExistsError):  # the name exists already and the node needs it
                plant(folder / name, node.outside / name)
                os.chown(folder / name, SERVICE, SERVICE, follow_symlinks=False)


def locks_elsewhere(node: Node) -> None:
    in_each(node, lambda path, victim: path.symlink_to(victim))
    for folder in (node.folder / "run" / "locks", node.folder / "shared" / "telemetry-0"):
        folder.symlink_to(node.outside)
        os.chown(folder, SERVICE, SERVICE, follow_symlinks=False)


def in_locks_too(plant: Callable[[Path, Path], None]) -> Callable[[Node], None]:
    def everywhere(node: Node) -> None:
        in_each(node, plant)
        folder = node.folder / "run" / "locks"
        folder.mkdir(mode=0o700)
        plant(folder / f"{TOOL}.lock", node.outside / f"{TOOL}.lock")
        os.chown(folder, SERVICE, SERVICE)

    return everywhere


def folders_elsewhere(node: Node) -> None:
    """The service's user owns the parent folder, and replaces the written folder by a link."""
    above = node.folder / "state" / "above"
    above.mkdir()
    os.chown(above, SERVICE, SERVICE)
    for name in ("own", "run", "collector"):
        (above / name).symlink_to(node.outside)
        os.chown(above / name, SERVICE, SERVICE, follow_symlinks=False)
    text = node.config.replace(f"{node.folder}/state", f"{above}/own").replace(f"{node.folder}/run", f"{above}/run")
    (node.folder / "telemetry.toml").write_text(text.replace(f"{node.folder}/collector", f"{above}/collector"))


PLANTS: dict[str, Callable[[Node], None]] = {
    "links, and a link for the locks": locks_elsewhere,
    "links to new files": in_locks_too(lambda path, victim: path.symlink_to(f"{victim}.new")),
    "other names of files": in_locks_too(lambda path, victim: path.hardlink_to(victim)),
    "pipes": in_locks_too(lambda path, _: os.mkfifo(path)),
    "folders": in_locks_too(lambda path, _: path.mkdir()),
    "links for all folders": folders_elsewhere,
}
# `make test` tries links for folders and for files; the others are the rest.
by_plant = pytest.mark.parametrize(
    "plant",
    [
        pytest.param(
            plant, id=name, marks=() if name in ("links for all folders", "links to new files") else pytest.mark.long
        )
        for name, plant in PLANTS.items()
    ],
)
COMMANDS = (
    ("forget", "GPU-1"),
    ("snapshot", "--timeout", "5"),
    ("doctor", "--source", TOOL),
    ("release", TOOL),
    ("resume", TOOL),
    ("config", "check"),
    ("config", "show"),
)


@by_plant
def test_commands_of_root_change_no_other_files(node: Node, plant: Callable[[Node], None]) -> None:
    plant(node)
    before = node.picture()
    for arguments in COMMANDS:
        _, _, error = node.command(*arguments)
        assert "this is a bug" not in error, (arguments, error)
        assert node.picture() == before, arguments
    for folder in ("shared", "collector"):
        recording = str(node.folder / folder / "recording.jsonl")
        status, _, error = node.command("record", "--for", "0.3", "-o", recording)
        assert (status, "recording.jsonl" in error) != (64, False), error
        assert node.picture() == before, folder
    assert node.folder.joinpath("state").stat().st_uid == SERVICE


@by_plant
def test_daemon_run_by_root_changes_no_other_files(node: Node, plant: Callable[[Node], None]) -> None:
    plant(node)
    before = node.picture()
    with AsItIs(node.folder, environment=node.environment) as daemon:
        daemon.until_state(TOOL, "ok")
        daemon.until(lambda: daemon.logged("textfile") or (node.folder / "collector" / "telemetry.prom").is_file())
        assert daemon.stop()[0] == 0
    assert daemon.logged("Traceback") == 0
    assert node.picture() == before


class AsItIs(Daemon):
    """A daemon with the existing configuration."""

    def write_config(self, text: str) -> None:
        del text


def test_files_created_by_root_belong_to_the_service(node: Node) -> None:
    node.remember()
    assert node.command("forget", "GPU-1")[:2] == (0, "forgot GPU-1\n")
    node.command("snapshot", "--source", TOOL)
    made = [path for folder in node.owned for path in folder.rglob("*")]
    assert {path.name for path in made} == {"devices.json", "locks", f"{TOOL}.lock"}
    assert {(path.stat().st_uid, path.stat().st_gid) for path in made} == {(SERVICE, SERVICE)}


SWAP = """
import os, sys
os.setgroups([]); os.setgid({user}); os.setuid({user})
os.chdir({folder!r})
print("ready", flush=True)
while True:
    for name in ("link", "real"):
        try:
            os.rename("own", "aside"); os.rename(name, "own"); os.rename("aside", "link" if name == "real" else "real")
        except OSError as error:
            sys.exit(str(error))
"""


@contextmanager
def swapping(folder: Path) -> Iterator[None]:
    """Exchange the service user's folder `own` and a link repeatedly."""
    program = SWAP.format(user=SERVICE, folder=str(folder))
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=clean_environment({})) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        try:
            yield
            assert child.poll() is None
        finally:
            child.send_signal(signal.SIGKILL)


def test_folder_replaced_by_a_link_is_not_followed(node: Node) -> None:
    folder = node.folder / "state"
    (folder / "own").mkdir()
    os.chown(folder / "own", SERVICE, SERVICE)
    (folder / "link").symlink_to(node.outside)
    before = node.picture()
    with swapping(folder):
        outcomes: Counter[bool] = Counter()
        end = time.monotonic() + PATIENCE_SECONDS
        while outcomes[True] < 200 or outcomes[False] < 200:
            assert time.monotonic() < end, outcomes
            outcomes[written_in(folder / "own")] += 1
    assert node.picture() == before


def written_in(folder: Path) -> bool:
    try:
        with OwnFolder.at(folder) as opened:
            opened.replace("devices.json", b"{}")
            os.close(opened.open_lock_file("smi.lock"))
    except OSError:  # a refusal is a good answer
        return False
    return True
