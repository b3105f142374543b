"""Reads from the kubelet which container has which device, and the names of the node's pods."""

from __future__ import annotations

import errno
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path

from telemetry_daemon.config.optional_sections import AttributionSettings
from telemetry_daemon.guarded.folders import UnsafeError
from telemetry_daemon.guarded.named import connect
from telemetry_daemon.readers import kubelet_places
from telemetry_daemon.readers.base import Reader, ReadStart, Targets
from telemetry_parsers.library import ReaderRefusal
from telemetry_parsers.model import Capture, Failure, Library, Output, Plain, Poll, Reason
from telemetry_parsers.owners.device_ids import is_wanted
from telemetry_parsers.owners.pod_resources import DecodeError, allocatable_in, pods_in

_SERVICE = "/v1.PodResourcesLister/"
_SOURCE = "kubelet"
_Decode = Callable[[bytes, Callable[[str], bool]], list[Plain]]
# Each call: the service's method, the key of the list in the answer, and its decoder.
_CALLS: Mapping[str, tuple[str, str, _Decode]] = {
    "pods": ("List", "pods", pods_in),
    "allocatable": ("GetAllocatableResources", "devices", allocatable_in),
}
_ABSENT = (errno.ENOENT, errno.ENOTDIR)
_ERRORS: tuple[tuple[type[OSError], Reason, str], ...] = (
    (TimeoutError, "timeout", "no answer before the deadline"),
    (BlockingIOError, "timeout", "the kubelet takes no more connections: too many wait already"),
    (ConnectionRefusedError, "exit_status", "no process listens on the socket: the kubelet is down or restarting"),
    (PermissionError, "no_permission", "only user 0 may connect, without any capability: docs/owners.md says how"),
)


def reader(path: str, settings: AttributionSettings) -> KubeletReader:
    """Return the reader of the kubelet below the folder `path`, which stands for /."""
    return KubeletReader(path.rstrip("/"), settings.kubelet_socket, frozenset(settings.resources))


class KubeletReader(Reader):
    """Connects for each call, because a restarted kubelet recreates its socket. Thread-safe. An empty `kubelet_socket` means the usual paths."""

    def __init__(self, root: str, kubelet_socket: str, resources: frozenset[str]) -> None:
        self._root = root
        self._sockets = (kubelet_socket,) if kubelet_socket else tuple(kubelet_places.sockets(root))
        self._resources = resources
        self._turn = threading.Lock()
        self._open: set[socket.socket] = set()
        self._is_closed = False
        # The bytes of each call's last answer, and the decoded list.
        self._last: dict[str, tuple[bytes, list[Plain]]] = {}

    def read(self, poll: Poll, targets: Targets) -> Capture:  # noqa: ARG002  # it lists all pods
        """Return one output: the kubelet's answer to the poll's call, or the failure."""
        begun, cpu = ReadStart(), time.thread_time()
        outputs: tuple[Output, ...] = ()
        failure: Failure | None = None
        try:
            call = _call_of(poll)
            outputs = (Output(call, status=0, data=self._data(call, begun.monotonic_time + poll.deadline)),)
        except ReaderRefusal as refusal:
            failure = Failure(refusal.state, refusal.reason, refusal.text)
        return begun.capture(_SOURCE, poll, outputs, failure, time.thread_time() - cpu)

    def close(self) -> None:
        """Interrupt the current read."""
        with self._turn:
            self._is_closed = True
            for connection in self._open:
                with suppress(OSError):  # the kubelet closed the connection already
                    connection.shutdown(socket.SHUT_RDWR)

    def _data(self, call: str, ends: float) -> Plain:
        method, name, decode = _CALLS[call]
        listed = self._decoded(call, decode, self._answer(_SERVICE + method, ends))
        data: dict[str, Plain] = {
            name: listed,
            "resources": sorted(self._resources),
            "render_nodes": kubelet_places.render_nodes(self._root),
        }
        if call == "pods":
            # In this order: a pod gets its cgroup before its folder and loses its cgroup first.
            data["folders"] = kubelet_places.log_folders(self._root)
            data["links"] = kubelet_places.log_links(self._root)
            data["living_pod_uids"] = kubelet_places.living_pods(self._root)
        return data

    def _decoded(self, call: str, decode: _Decode, answer: bytes) -> list[Plain]:
        """Return the decoded list. An unchanged answer is not decoded again, which saves half the cost."""
        last = self._last.get(call)
        if last is not None and last[0] == answer:
            return last[1]
        try:
            listed = decode(answer, partial(is_wanted, configured=self._resources))
        except DecodeError as error:
            raise ReaderRefusal(
                "failed", "not_understood", f"the kubelet's answer cannot be decoded: {error}"
            ) from error
        self._last[call] = (answer, listed)
        return listed

    def _answer(self, method: str, ends: float) -> bytes:
        refusals = []
        for path in self._sockets:
            answer = self._asked(path, method, ends)
            if isinstance(answer, bytes):
                return answer
            refusals.append(answer)
        missing = ReaderRefusal("missing", None, f"no kubelet has a socket here: {' '.join(self._sockets)}")
        raise next((refusal for refusal in refusals if refusal.state != "missing"), missing)

    def _asked(self, path: str, method: str, ends: float) -> bytes | ReaderRefusal:
        try:
            with self._connection(path, ends) as connection:
                # Import h2 (1.6 MiB) only if a kubelet is present.
                from telemetry_daemon.readers.kubelet_call import call

                return call(connection, method, ends)
        except ReaderRefusal as refusal:
            return ReaderRefusal(refusal.state, refusal.reason, f"{path}: {refusal.text}")
        except OSError as error:
            return _broken(path, error)

    @contextmanager
    def _connection(self, path: str, ends: float) -> Iterator[socket.socket]:
        """Open a connection that `close` can interrupt."""
        with closing(connect(Path(path), max(0.001, ends - time.monotonic()))) as connection:
            with self._turn:
                if self._is_closed:
                    raise ReaderRefusal("failed", "killed", "the daemon ends")
                self._open.add(connection)
            try:
                yield connection
            finally:
                with self._turn:
                    self._open.discard(connection)


def _call_of(poll: Poll) -> str:
    if isinstance(poll.request, Library) and poll.request.reader == _SOURCE and len(poll.request.calls) == 1:
        call = poll.request.calls[0]
        if call in _CALLS:
            return call
    raise ReaderRefusal("failed", "internal", f"the kubelet's reader knows only the calls {' '.join(_CALLS)}")


def _broken(path: str, error: OSError) -> ReaderRefusal:
    if error.errno in _ABSENT:
        return ReaderRefusal("missing", None, path)
    if isinstance(error, UnsafeError):
        return ReaderRefusal("failed", "no_permission", str(error))
    matching = ((reason, text) for kind, reason, text in _ERRORS if isinstance(error, kind))
    reason, text = next(matching, ("exit_status", error.strerror or str(error)))
    return ReaderRefusal("failed", reason, f"{path}: {text}")
