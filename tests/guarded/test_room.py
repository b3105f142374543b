"""The package `guarded`: accepted folders, files that it reads, and files that it writes for the user."""

import contextlib
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from kits.captures import ROOT
from kits.daemon import clean_environment
from telemetry_daemon.guarded import folders, named
from telemetry_daemon.guarded.folders import UnsafeError
from telemetry_daemon.guarded.named import bind_unix_socket, connect
from telemetry_daemon.guarded.own_folder import OwnFolder
from telemetry_daemon.guarded.reading import NotAFileError, TooLargeError, read_file

OTHER_USER = 65534
KILLED_WRITER = """
import os, signal, sys
from telemetry_daemon.guarded import folders
with folders.replacement(int(sys.argv[1]), "killed"):
    os.kill(os.getpid(), signal.SIGKILL)
"""
needs_root = pytest.mark.needs("root")


def made(path: Path, mode: int = 0o755, owner: int = -1, group: int = -1) -> Path:
    path.mkdir(parents=True)
    path.chmod(mode)
    os.chown(path, owner, group)
    return path


def link(path: Path, target: Path, owner: int = -1) -> Path:
    path.symlink_to(target)
    os.chown(path, owner, -1, follow_symlinks=False)
    return path


GOOD: dict[str, Callable[[Path], Path]] = {
    "one of ours": lambda base: made(base / "a"),
    "over a link, two dots and a link": lambda base: link(
        made(base / "b") / "to", Path("..") / link(base / "l", made(base / "a")).name
    ),
    "ours in one that all may write to, as in a pod": lambda base: made(made(base / "empty", 0o777) / "a"),
    "ours in a sticky one, as in /tmp": lambda base: made(made(base / "tmp", 0o1777) / "a"),
    "one that is not there": lambda base: base / "a" / "b" / "c",
}
BAD: dict[str, Callable[[Path], Path]] = {
    "all may write to it": lambda base: made(base / "a", 0o777),
    "a group may write to it": lambda base: made(base / "a", 0o775),
    "a link where all may write": lambda base: link(made(base / "open", 0o777) / "link", made(base / "a")),
}
_FOR_ROOT: dict[str, Callable[[Path], Path]] = {
    "another's, where anybody could make it": lambda base: made(made(base / "tmp", 0o1777) / "a", owner=OTHER_USER),
    "another's, where a group could make it": lambda base: made(
        made(base / "tmp", 0o1775, group=OTHER_USER) / "a", owner=OTHER_USER
    ),
    "another's link": lambda base: link(base / "link", made(base / "a"), OTHER_USER),
    "a link of root's in another's folder": lambda base: link(
        made(base / "x", owner=OTHER_USER) / "l", made(base / "a")
    ),
    "a third one's in another's": lambda base: made(made(base / "x", owner=OTHER_USER) / "y", owner=OTHER_USER - 1),
}
FOR_ROOT = [pytest.param(make_path, id=name, marks=needs_root) for name, make_path in _FOR_ROOT.items()]


@pytest.mark.parametrize("make_path", GOOD.values(), ids=GOOD)
def test_folder_that_only_we_can_change_is_used(tmp_path: Path, make_path: Callable[[Path], Path]) -> None:
    path = make_path(tmp_path)
    with OwnFolder.create_at(path) as opened:
        opened.replace("x", b"1")
        opened.replace("x", b"2")
        assert opened.read("x", 1) == b"2"
    assert [entry.name for entry in path.iterdir()] == ["x"]
    assert stat.S_IMODE((path / "x").stat().st_mode) == 0o600


@pytest.mark.parametrize("make_path", [pytest.param(make_path, id=name) for name, make_path in BAD.items()] + FOR_ROOT)
def test_folder_that_others_can_change_is_refused(tmp_path: Path, make_path: Callable[[Path], Path]) -> None:
    path = make_path(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UnsafeError, match=r"chmod go-w|chown \w+|use its target instead"):
        OwnFolder.create_at(path)
    assert sorted(tmp_path.rglob("*")) == before


def test_only_root_is_advised_to_change_an_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = tmp_path.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(UnsafeError, match=rf"belongs to user {owner}: run this as its owner, or use another folder\Z"):
        OwnFolder.at(tmp_path)


@needs_root
def test_root_of_a_user_namespace_is_checked_like_its_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with `unshare --map-root-user`, where the owner of / is unknown."""

    class Foreign(type(tmp_path)):  # type: ignore[misc]  # the class of this machine's paths
        def stat(self, **_: object) -> os.stat_result:
            status = list(super().stat())
            status[stat.ST_UID] = OTHER_USER
            return os.stat_result(status)

    path = made(made(made(tmp_path / "x", owner=OTHER_USER) / "y", owner=OTHER_USER - 1) / "a")
    with pytest.raises(UnsafeError, match="chown root"):
        OwnFolder.at(path)
    monkeypatch.setattr(folders, "Path", Foreign)
    OwnFolder.at(path).close()


READ: dict[str, tuple[Callable[[Path], object], type[OSError], str]] = {
    "a pipe": (os.mkfifo, NotAFileError, "it is a pipe, not a regular file"),
    "a folder": (Path.mkdir, NotAFileError, "it is a folder; name the file in it"),
    "too much": (lambda path: path.write_bytes(b"x" * 1025), TooLargeError, "it is larger than 1 KiB"),
    "too much that has no size": (lambda path: path.symlink_to("/proc/cpuinfo"), TooLargeError, "it is larger than 1 KiB"),
    "nothing": (lambda _: None, FileNotFoundError, "No such file or directory"),
}  # fmt: skip


@pytest.mark.parametrize(("plant", "error", "expected"), READ.values(), ids=READ)
def test_file_above_the_size_limit_is_not_read(
    tmp_path: Path, plant: Callable[[Path], object], error: type[OSError], expected: str
) -> None:
    plant(tmp_path / "x")
    with pytest.raises(error) as caught:
        read_file(str(tmp_path / "x"), 1024)
    assert (caught.value.strerror, caught.value.filename) == (expected, str(tmp_path / "x"))


def test_in_our_own_folders_no_link_is_read_through(tmp_path: Path) -> None:
    (tmp_path / "x").symlink_to("/etc/passwd")
    with OwnFolder.at(tmp_path) as opened, pytest.raises(NotAFileError, match="it is a link"):
        opened.read("x", 1 << 20)


def started(path: Path, content: bytes) -> None:
    descriptor = named.open_stream(path)
    if descriptor is None:
        with contextlib.closing(named.FileNameLock(path)) as claim:
            os.close(claim.replace_and_open(content))
        return
    os.write(descriptor, content)
    os.close(descriptor)


@pytest.mark.parametrize("mode", [0o1777, 0o2775, 0o777])
def test_shared_folder_is_allowed_by_option(tmp_path: Path, mode: int) -> None:
    path = made(tmp_path / "shared", mode) / "x"
    other = path.with_name("other name")
    path.write_text("old")
    path.chmod(0o666)
    other.hardlink_to(path)
    started(path, b"new")
    assert (path.read_text(), other.read_text()) == ("new", "old")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    named.replace(path, b"newer", 0o644)
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("newer", 0o644)
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["other name", "x"]


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    link(tmp_path / "x", victim)
    with pytest.raises(OSError, match="it is a link"):
        named.open_stream(tmp_path / "x")
    named.replace(tmp_path / "x", b"new", 0o644)
    assert (victim.read_text(), (tmp_path / "x").is_symlink()) == ("mine", False)


def test_own_streams_devices_and_pipes_are_written_to(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    started(tmp_path / "pipe", b"piped")
    reader.join(30)
    assert read == [b"piped"]
    started(Path("/dev/null"), b"x")
    program = "from pathlib import Path; from telemetry_daemon.guarded import named; import os; "
    names = ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
    program += f"[os.write(named.open_stream(Path(name)), b'x') for name in {names}]"
    for target in (subprocess.PIPE, (tmp_path / "file").open("wb")):
        done = subprocess.run([sys.executable, "-c", program], stdout=target, env=clean_environment({}))
        assert done.returncode == 0
        assert (done.stdout or (tmp_path / "file").read_bytes()) == b"xxx"
        if not isinstance(target, int):
            target.close()


@needs_root
def test_pipe_of_another_user_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x")
    os.chown(tmp_path / "x", OTHER_USER, -1)
    with pytest.raises(UnsafeError, match="nor a pipe of this user"):
        named.open_stream(tmp_path / "x")


def test_a_dead_socket_is_replaced_and_a_living_one_and_a_file_are_not(tmp_path: Path) -> None:
    path = tmp_path / "x.sock"
    bind_unix_socket(path).close()
    with bind_unix_socket(path) as living:
        living.listen()
        connect(path, 1.0).close()
        with pytest.raises(OSError, match="taken"):
            bind_unix_socket(path)
    path.unlink()
    path.write_text("")
    with pytest.raises(FileExistsError):
        bind_unix_socket(path)


def test_a_link_to_a_socket_is_not_spoken_to(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as victim:
        victim.bind(str(tmp_path / "victim"))
        victim.listen()
        victim.settimeout(0)
        link(tmp_path / "control.sock", tmp_path / "victim")
        with pytest.raises(UnsafeError, match="is not a socket"):
            connect(tmp_path / "control.sock", 1.0)
        with pytest.raises(BlockingIOError):
            victim.accept()


def test_the_next_writer_removes_the_files_of_a_killed_writer_but_not_those_of_a_running_writer(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_WRITER, str(folder)], pass_fds=(folder,), cwd=ROOT / "daemon", check=False
    )
    (tmp_path / ".notes.0123456789abcdef.new").write_text("another program's")
    assert (killed.returncode, len(list(tmp_path.iterdir()))) == (-signal.SIGKILL, 2)
    with folders.replacement(folder, "first") as first:
        folders.write(first, b"1")
        with folders.replacement(folder, "second") as second:
            folders.write(second, b"2")
        assert len(list(tmp_path.iterdir())) == 3
    os.close(folder)
    contents = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert contents == {".notes.0123456789abcdef.new": "another program's", "first": "1", "second": "2"}
