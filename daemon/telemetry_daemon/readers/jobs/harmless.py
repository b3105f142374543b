"""Runs the work of a hook in a child process, so that the hook exits soon and with status 0, whatever happens."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from telemetry_daemon.terminal import streams

# With the start of Python, a hook takes less than two seconds. Slurm drains a node whose prolog or epilog hangs.
_MAX_SECONDS = 1.2
_MAX_BYTES = 16 << 10
# poll() reports a pipe as writable if this much fits without blocking (pipe(7), PIPE_BUF).
_CHUNK_BYTES = 4096
_PATIENCE_MILLISECONDS = 50
_STDOUT, _STDERR = 1, 2
_WARNING_OF_A_DAEMON = 28  # syslog(3): LOG_DAEMON | LOG_WARNING
_LATE = "telemetry job: it did not end in time, and was ended: is the folder's file system dead?"


def run(work: Callable[[], int]) -> NoReturn:
    """Run the work in a child process within the time limit, print its output, and exit with status 0."""
    try:
        _run(work)
    except BaseException as error:  # noqa: BLE001 # a failing hook would drain the node
        _report(f"telemetry job: {type(error).__name__}: {error}")
    finally:
        os._exit(0)


def _run(work: Callable[[], int]) -> None:
    until = time.monotonic() + _MAX_SECONDS
    streams.prepare()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    outputs, errors = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        _work(work, outputs[1], errors[1])
    os.close(outputs[1])
    os.close(errors[1])
    printed, complaints = _read_both(outputs[0], errors[0], until)
    if time.monotonic() >= until:
        os.kill(child, signal.SIGKILL)
        complaints += _LATE.encode()
    _pass_on(_STDOUT, printed)
    if complaints:
        _report(complaints.decode(errors="replace").strip())


def _work(work: Callable[[], int], output: int, errors: int) -> NoReturn:
    """Run the work in the child, with its output redirected to the pipes."""
    try:
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor, stream in ((null, 0), (output, _STDOUT), (errors, _STDERR)):
            os.dup2(descriptor, stream)
        # New stream objects, because the old ones may assume the position of another file.
        sys.stdout, sys.stderr = (os.fdopen(stream, "w", closefd=False) for stream in (_STDOUT, _STDERR))
        with suppress(SystemExit):  # a usage error or the help text, already printed
            work()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException as error:  # noqa: BLE001 # no caller handles exceptions
        sys.stderr.flush()
        os.write(_STDERR, f"telemetry job: {type(error).__name__}: {error}".encode())
    finally:
        os._exit(0)


def _read_both(output: int, errors: int, until: float) -> tuple[bytes, bytes]:
    """Return the content of both pipes. Stop reading when both are closed or the time is over."""
    content = {output: bytearray(), errors: bytearray()}
    waiting = select.poll()
    for descriptor in content:
        waiting.register(descriptor, select.POLLIN)
    left = set(content)
    while left and (seconds := until - time.monotonic()) > 0:
        for descriptor, _ in waiting.poll(seconds * 1000):
            chunk = os.read(descriptor, _CHUNK_BYTES)
            content[descriptor] += chunk[: _MAX_BYTES - len(content[descriptor])]
            if not chunk:
                left.discard(descriptor)
                waiting.unregister(descriptor)
    return bytes(content[output]), bytes(content[errors])


def _report(text: str) -> None:
    """Print the text on standard error and send it to syslog, because few schedulers keep the output of a successful hook."""
    _pass_on(_STDERR, text.encode() + b"\n")
    with suppress(OSError):  # without syslog, standard error has the text
        import socket

        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log:
            log.setblocking(False)  # noqa: FBT003  # the standard library's own signature
            log.connect("/dev/log")
            log.send(f"<{_WARNING_OF_A_DAEMON}>{' '.join(text.splitlines())}".encode()[:_CHUNK_BYTES])


def _pass_on(descriptor: int, content: bytes) -> None:
    """Write as much as possible without blocking, because nothing may read the output."""
    writable = select.poll()
    writable.register(descriptor, select.POLLOUT)
    with suppress(OSError):  # the reading process has exited
        for start in range(0, len(content), _CHUNK_BYTES):
            if not any(event & select.POLLOUT for _, event in writable.poll(_PATIENCE_MILLISECONDS)):
                return
            os.write(descriptor, content[start : start + _CHUNK_BYTES])
