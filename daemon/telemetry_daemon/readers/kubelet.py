"""Reads from the kubelet which devices each container has, and reads the node's files about pods."""

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
# For each call: the method of the service, the key of the list in the output, and the decoder of the response.
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
    """Return the reader of the kubelet. If `path` is set, it replaces / as the root of the node's files."""
    return KubeletReader(path.rstrip("/"), settings.kubelet_socket, frozenset(settings.resources))


class KubeletReader(Reader):
    """Connects for each call, because a restarted kubelet recreates its socket. Without `kubelet_socket`, tries the usual paths."""

    def __init__(self, root: str, kubelet_socket: str, resources: frozenset[str]) -> None:
        self._root = root
        self._sockets = (kubelet_socket,) if kubelet_socket else tuple(kubelet_places.sockets(root))
        self._resources = resources
        self._turn = threading.Lock()
        self._open: set[socket.socket] = set()
        self._is_closed = False
        # The last response to each call, and the list decoded from it.
        self._last_response: dict[str, tuple[bytes, list[Plain]]] = {}

    def read(self, poll: Poll, targets: Targets) -> Capture:  # noqa: ARG002  # it lists all pods
        """Return a capture with the response to the poll's call and the files about pods, or with a failure."""
        start, cpu_start = ReadStart(), time.thread_time()
        outputs: tuple[Output, ...] = ()
        failure: Failure | None = None
        try:
            call = _call_of(poll)
            outputs = (Output(call, status=0, data=self._data(call, start.monotonic_time + poll.deadline)),)
        except ReaderRefusal as refusal:
            failure = Failure(refusal.state, refusal.reason, refusal.text)
        return start.capture(_SOURCE, poll, outputs, failure, time.thread_time() - cpu_start)

    def close(self) -> None:
        """Interrupt the current read."""
        with self._turn:
            self._is_closed = True
            for connection in self._open:
                with suppress(OSError):  # the kubelet has closed the connection
                    connection.shutdown(socket.SHUT_RDWR)

    def _data(self, call: str, ends: float) -> Plain:
        method, name, decode = _CALLS[call]
        items = self._decode_response(call, decode, self._response(_SERVICE + method, ends))
        data: dict[str, Plain] = {
            name: items,
            "resources": sorted(self._resources),
            "render_nodes": kubelet_places.render_nodes(self._root),
        }
        if call == "pods":
            # Folders are read before cgroups: a new pod gets its cgroup before its folder.
            data["folders"] = kubelet_places.log_folders(self._root)
            data["links"] = kubelet_places.log_links(self._root)
            data["living_pod_uids"] = kubelet_places.living_pods(self._root)
        return data

    def _decode_response(self, call: str, decode: _Decode, answer: bytes) -> list[Plain]:
        """Return the decoded list. An unchanged response is not decoded again, which saves half of the CPU time."""
        previous = self._last_response.get(call)
        if previous is not None and previous[0] == answer:
            return previous[1]
        try:
            items = decode(answer, partial(is_wanted, configured=self._resources))
        except DecodeError as error:
            raise ReaderRefusal(
                "failed", "not_understood", f"the kubelet's answer cannot be decoded: {error}"
            ) from error
        self._last_response[call] = (answer, items)
        return items

    def _response(self, method: str, ends: float) -> bytes:
        refusals = []
        for path in self._sockets:
            answer = self._response_from(path, method, ends)
            if isinstance(answer, bytes):
                return answer
            refusals.append(answer)
        missing = ReaderRefusal("missing", None, f"no socket of a kubelet found:  {' '.join(self._sockets)}")
        raise next((refusal for refusal in refusals if refusal.state != "missing"), missing)

    def _response_from(self, path: str, method: str, ends: float) -> bytes | ReaderRefusal:
        try:
            with self._connection(path, ends) as connection:
                # Import h2 (1.6 MiB) only if a kubelet is present.
                from telemetry_daemon.readers.kubelet_call import call

                return call(connection, method, ends)
        except ReaderRefusal as refusal:
            return ReaderRefusal(refusal.state, refusal.reason, f"{path}: {refusal.text}")
        except OSError as error:
            return _refusal_for(path, error)

    @contextmanager
    def _connection(self, path: str, ends: float) -> Iterator[socket.socket]:
        """Connect to the socket. `close` can interrupt the connection."""
        with closing(connect(Path(path), max(0.001, ends - time.monotonic()))) as connection:
            with self._turn:
                if self._is_closed:
                    raise ReaderRefusal("failed", "killed", "the daemon is stopping")
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
    raise ReaderRefusal("failed", "internal", f"the only calls of the kubelet's reader are {' '.join(_CALLS)}")


def _refusal_for(path: str, error: OSError) -> ReaderRefusal:
    if error.errno in _ABSENT:
        return ReaderRefusal("missing", None, path)
    if isinstance(error, UnsafeError):
        return ReaderRefusal("failed", "no_permission", str(error))
    matching = ((reason, text) for kind, reason, text in _ERRORS if isinstance(error, kind))
    reason, text = next(matching, ("exit_status", error.strerror or str(error)))
    return ReaderRefusal("failed", reason, f"{path}: {text}")
