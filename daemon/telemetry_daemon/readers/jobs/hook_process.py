"""Runs a hook's command in a child process, so that the hook exits soon."""

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

# Slurm drains a node whose prolog or epilog hangs.
_MAX_SECONDS = 1.2
_MAX_OUTPUT_BYTES = 16 << 10
# If poll() reports a pipe as writable, writing this much does not block (pipe(7), PIPE_BUF).
_CHUNK_BYTES = 4096
_WRITE_MILLISECONDS = 50
_STDOUT, _STDERR = 1, 2
_SYSLOG_PRIORITY = 28  # syslog(3): LOG_DAEMON | LOG_WARNING
_TIMEOUT_TEXT = "telemetry job: the command did not finish in time and was killed; check the file system of attribution.job_directory"


def run_and_exit(run_command: Callable[[], int]) -> NoReturn:
    """Run the command in a child process, print its output, and exit with status 0."""
    try:
        _run_in_child(run_command)
    except BaseException as error:  # noqa: BLE001 # a failing hook would drain the node
        _report(f"telemetry job: {type(error).__name__}: {error}")
    finally:
        os._exit(0)


def _run_in_child(run_command: Callable[[], int]) -> None:
    deadline = time.monotonic() + _MAX_SECONDS
    streams.prepare_streams()
    for signal_number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(signal_number, signal.SIG_IGN)
    output_pipe, error_pipe = os.pipe(), os.pipe()
    child_pid = os.fork()
    if child_pid == 0:
        _child_main(run_command, output_pipe[1], error_pipe[1])
    os.close(output_pipe[1])
    os.close(error_pipe[1])
    output, error_output = _read_pipes(output_pipe[0], error_pipe[0], deadline)
    if time.monotonic() >= deadline:
        os.kill(child_pid, signal.SIGKILL)
        error_output += _TIMEOUT_TEXT.encode()
    _write_without_blocking(_STDOUT, output)
    if error_output:
        _report(error_output.decode(errors="replace").strip())


def _child_main(run_command: Callable[[], int], output_descriptor: int, error_descriptor: int) -> NoReturn:
    try:
        null_descriptor = os.open(os.devnull, os.O_RDWR)
        for descriptor, stream in ((null_descriptor, 0), (output_descriptor, _STDOUT), (error_descriptor, _STDERR)):
            os.dup2(descriptor, stream)
        # The old streams may remember their position in the replaced files.
        sys.stdout, sys.stderr = (os.fdopen(stream, "w", closefd=False) for stream in (_STDOUT, _STDERR))
        with suppress(SystemExit):  # argparse has printed a usage error or the help text
            run_command()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException as error:  # noqa: BLE001 # no caller handles exceptions
        sys.stderr.flush()
        os.write(_STDERR, f"telemetry job: {type(error).__name__}: {error}".encode())
    finally:
        os._exit(0)


def _read_pipes(output_descriptor: int, error_descriptor: int, deadline: float) -> tuple[bytes, bytes]:
    """Return the content of both pipes. Stop reading at the monotonic time `deadline`."""
    content = {output_descriptor: bytearray(), error_descriptor: bytearray()}
    poller = select.poll()
    for descriptor in content:
        poller.register(descriptor, select.POLLIN)
    open_pipes = set(content)
    while open_pipes and (remaining_seconds := deadline - time.monotonic()) > 0:
        for descriptor, _ in poller.poll(remaining_seconds * 1000):
            chunk = os.read(descriptor, _CHUNK_BYTES)
            content[descriptor] += chunk[: _MAX_OUTPUT_BYTES - len(content[descriptor])]
            if not chunk:
                open_pipes.discard(descriptor)
                poller.unregister(descriptor)
    return bytes(content[output_descriptor]), bytes(content[error_descriptor])


def _report(text: str) -> None:
    """Print the text on standard error and send it to syslog."""
    _write_without_blocking(_STDERR, text.encode() + b"\n")
    with suppress(OSError):  # without syslog, the text is only on standard error
        import socket

        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log:
            log.setblocking(False)  # noqa: FBT003  # the standard library's own signature
            log.connect("/dev/log")
            log.send(f"<{_SYSLOG_PRIORITY}>{' '.join(text.splitlines())}".encode()[:_CHUNK_BYTES])


def _write_without_blocking(descriptor: int, content: bytes) -> None:
    poller = select.poll()
    poller.register(descriptor, select.POLLOUT)
    with suppress(OSError):  # the reading process has exited
        for start in range(0, len(content), _CHUNK_BYTES):
            if not any(event & select.POLLOUT for _, event in poller.poll(_WRITE_MILLISECONDS)):
                return
            os.write(descriptor, content[start : start + _CHUNK_BYTES])
