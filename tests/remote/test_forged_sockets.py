"""Forged sockets of the service's user cannot make root's commands hang, fill memory or print escapes."""

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kits.command_line import run_main

Answer = Callable[[socket.socket], None]
ESCAPE = "\x1b]0;owned\x07\x1b[2J"
MAX_MEBIBYTES = 300


def once(text: bytes) -> Answer:
    return lambda client: client.sendall(text)


def endless(piece: bytes) -> Answer:
    def answer(client: socket.socket) -> None:
        while True:
            client.sendall(piece)

    return answer


def error(text: str) -> bytes:
    return json.dumps({"error": text}).encode() + b"\n"


CONTROL = {
    "endless bytes": endless(b"x" * 65536),
    "endless short lines": endless(b'{"a":1}\n' * 8192),
    "endless counts of lost captures": endless(b'{"schema":"telemetry.lost/1","captures":1}\n' * 8192),
    "a round that ends late": once(b'{"schema":"telemetry.lost/1","captures":1,"round_ended":1e300}\n'),
    "endless rounds": endless(b'{"schema":"telemetry.lost/1","captures":1,"round_ended":1e12}\n' * 8192),
    "endless values": endless(b"[],[]," * 10000),
    "a long error": once(error("x" * 1_000_000)),
    "escapes in an error": once(error(f"refused {ESCAPE}")),
    "escapes in answers": once(
        json.dumps(
            {
                "forgotten": 1,
                "events": [ESCAPE],
                "lost": [ESCAPE],
                "resumed": True,
                "left_behind": [],
                "ends_in": 5.0,
                "reason": ESCAPE,
                "not_kept": ESCAPE,
                "was_on": True,
            }
        ).encode()
        + b"\n"
    ),
    "other types": once(b'{"forgotten":"x","events":7,"lost":{},"resumed":[],"left_behind":"x","ends_in":1e300}\n'),
    "no JSON": once(b"\xff\xfe\n"),
    "a list": once(b"[1,2]\n"),
    "nothing": once(b""),
}
HEAD = b"HTTP/1.1 200 OK\r\n"
LOCAL = {
    "endless bytes": endless(b"x" * 65536),
    "an endless head": endless(b"X-A: b\r\n" * 8192),
    "an endless body": lambda client: (client.sendall(HEAD + b"\r\n"), endless(b"[1,2,3]," * 8192)(client))[0],
    "endless chunks": lambda client: (
        client.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n"),
        endless(b"1000\r\n" + b"x" * 4096 + b"\r\n")(client),
    )[0],
    "escapes": once(HEAD + b"Content-Length: 14\r\n\r\n" + b'{"schema":"\x1b["'),
    "nothing": once(b""),
}
COMMANDS = (
    ("forget", "GPU-1"),
    ("forget", "--all-lost"),
    ("release", "nvml"),
    ("resume", "nvml"),
    ("maintenance",),
    ("maintenance", "on"),
    ("maintenance", "off"),
    ("replay", "status"),
    ("record", "--for", "1s", "--from", "daemon", "--output", "recording.jsonl"),
)
QUICK = ("maintenance", "record")  # the other commands read answers in the same way
READERS = (
    ("snapshot", "--from", "daemon", "--timeout", "5s"),
    ("check", "--timeout", "5s"),
    ("doctor", "--source", "host"),
)


@contextlib.contextmanager
def forged(path: Path, answer: Answer) -> Iterator[None]:
    def serve() -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:  # closed at the test's end
                return
            threading.Thread(target=talk, args=(client,), daemon=True).start()

    def talk(client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):  # the command has hung up
            client.recv(4096)
            answer(client)

    path.parent.mkdir(exist_ok=True)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        accepting = threading.Thread(target=serve, daemon=True)
        accepting.start()
        yield
        server.shutdown(socket.SHUT_RDWR)
        accepting.join()


def peak_mebibytes() -> float:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def run(folder: Path, command: tuple[str, ...]) -> str:
    name, *arguments = command
    config = folder / "telemetry.toml"
    config.write_text(
        f'[state]\ndirectory = "{folder}/state"\nruntime_directory = "{folder}/run"\n[web]\nlisten_address = ["127.0.0.1:1"]\n'
    )
    words = [f"{folder}/{word}" if word.endswith(".jsonl") else word for word in arguments]
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of earlier tests (proc(5))
    before = peak_mebibytes()
    done = run_main(name, "--config", str(config), *words)
    grown = peak_mebibytes() - before
    assert done.status != 70, done
    assert grown < MAX_MEBIBYTES, (command, grown)
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "kind", "command"),
    [
        *(
            pytest.param("control.sock", kind, command, marks=() if command[0] in QUICK else pytest.mark.long)
            for kind in CONTROL
            for command in COMMANDS
        ),
        *(("local.sock", kind, command) for kind in LOCAL for command in READERS),
    ],
    ids=str,
)
def test_command_survives_a_forged_socket(tmp_path: Path, name: str, kind: str, command: tuple[str, ...]) -> None:
    with forged(tmp_path / "run" / name, (CONTROL if name == "control.sock" else LOCAL)[kind]):
        output = run(tmp_path, command)
    assert "\x1b" not in output
    assert len(output) < 10_000


def test_a_bundle_is_written_beside_forged_sockets(tmp_path: Path) -> None:
    with (
        forged(tmp_path / "run" / "control.sock", CONTROL["endless short lines"]),
        forged(tmp_path / "run" / "local.sock", LOCAL["an endless body"]),
    ):
        output = run(tmp_path, ("doctor", "--bundle", str(tmp_path / "bundle.tar.gz")))
    assert "\x1b" not in output
    assert (tmp_path / "bundle.tar.gz").stat().st_size < 1 << 20
