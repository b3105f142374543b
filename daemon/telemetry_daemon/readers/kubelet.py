"""Reads each container's devices from the kubelet, and the node's files about pods."""

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
from telemetry_daemon.readers import pod_files
from telemetry_daemon.readers.base import Reader, ReadStart, Targets
from telemetry_parsers.library import ReaderRefusal
from telemetry_parsers.model import Capture, Failure, Library, Output, Plain, Poll, Reason
from telemetry_parsers.owners.device_ids import is_wanted
from telemetry_parsers.owners.pod_resources import DecodeError, allocatable_in, pods_in

_SERVICE = "/v1.PodResourcesLister/"
_SOURCE = "kubelet"
_Decoder = Callable[[bytes, Callable[[str], bool]], list[Plain]]
# For each call: (gRPC method, key of the list, decoder of the response).
_CALLS: Mapping[str, tuple[str, str, _Decoder]] = {
    "pods": ("List", "pods", pods_in),
    "allocatable": ("GetAllocatableResources", "devices", allocatable_in),
}
_MISSING_ERRNOS = (errno.ENOENT, errno.ENOTDIR)
_CONNECT_ERRORS: tuple[tuple[type[OSError], Reason, str], ...] = (
    (TimeoutError, "timeout", "no answer before the deadline"),
    (BlockingIOError, "timeout", "the kubelet accepts no more connections, because too many are waiting"),
    (ConnectionRefusedError, "exit_status", "no process listens on the socket: the kubelet is down or restarting"),
    (PermissionError, "no_permission", "the daemon must run as user 0, but needs no capabilities: see docs/owners.md"),
)


def create_reader(path: str, settings: AttributionSettings) -> KubeletReader:
    """Return a reader of the kubelet. The node's files are below `path`."""
    return KubeletReader(path.rstrip("/"), settings.kubelet_socket, frozenset(settings.resources))


class KubeletReader(Reader):
    """Reads from the kubelet's sockets, over a new connection for each call."""

    def __init__(self, root: str, kubelet_socket: str, resources: frozenset[str]) -> None:
        self._root = root
        self._sockets = (kubelet_socket,) if kubelet_socket else tuple(pod_files.kubelet_sockets(root))
        self._resources = resources
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        self._is_closed = False
        # The last response to each call, and the list decoded from it.
        self._responses_by_call: dict[str, tuple[bytes, list[Plain]]] = {}

    def read(self, poll: Poll, targets: Targets) -> Capture:  # noqa: ARG002  # the kubelet lists all pods
        """Return a capture with the kubelet's response, and with the node's own files about pods."""
        start, cpu_start = ReadStart(), time.thread_time()
        outputs: tuple[Output, ...] = ()
        failure: Failure | None = None
        try:
            call = _requested_call(poll)
            outputs = (Output(call, status=0, data=self._collect_data(call, start.monotonic_time + poll.deadline)),)
        except ReaderRefusal as refusal:
            failure = Failure(refusal.state, refusal.reason, refusal.text)
        return start.create_capture(_SOURCE, poll, outputs, failure, time.thread_time() - cpu_start)

    def close(self) -> None:
        """Interrupt the current read, and let later reads fail."""
        with self._lock:
            self._is_closed = True
            for connection in self._connections:
                with suppress(OSError):  # the kubelet has closed the connection
                    connection.shutdown(socket.SHUT_RDWR)

    def _collect_data(self, call: str, deadline: float) -> Plain:
        method, key, decode = _CALLS[call]
        entries = self._decode_response(call, decode, self._fetch(_SERVICE + method, deadline))
        data: dict[str, Plain] = {
            key: entries,
            "resources": sorted(self._resources),
            "render_nodes": pod_files.render_nodes(self._root),
        }
        if call == "pods":
            # A new pod gets its cgroup before its folder, so folders are read first. Else a new pod would seem to have ended.
            data["folders"] = pod_files.log_folders(self._root)
            data["links"] = pod_files.log_links(self._root)
            data["living_pod_uids"] = pod_files.pod_uids_with_cgroup(self._root)
        return data

    def _decode_response(self, call: str, decode: _Decoder, response: bytes) -> list[Plain]:
        """Return the decoded list. If the response has not changed, it is not decoded again."""
        previous = self._responses_by_call.get(call)
        if previous is not None and previous[0] == response:
            return previous[1]
        try:
            entries = decode(response, partial(is_wanted, configured_resources=self._resources))
        except DecodeError as error:
            text = f"the kubelet's answer cannot be decoded: {error}"
            raise ReaderRefusal("failed", "not_understood", text) from error
        self._responses_by_call[call] = (response, entries)
        return entries

    def _fetch(self, method: str, deadline: float) -> bytes:
        refusals = []
        for path in self._sockets:
            response = self._fetch_from(path, method, deadline)
            if isinstance(response, bytes):
                return response
            refusals.append(response)
        missing_refusal = ReaderRefusal("missing", None, f"no kubelet socket found: {' '.join(self._sockets)}")
        raise next((refusal for refusal in refusals if refusal.state != "missing"), missing_refusal)

    def _fetch_from(self, path: str, method: str, deadline: float) -> bytes | ReaderRefusal:
        try:
            with self._open_connection(path, deadline) as connection:
                # Only nodes with a kubelet need h2 (1.6 MiB).
                from telemetry_daemon.readers.kubelet_call import call

                return call(connection, method, deadline)
        except ReaderRefusal as refusal:
            return ReaderRefusal(refusal.state, refusal.reason, f"{path}: {refusal.text}")
        except OSError as error:
            return _refusal_for(path, error)

    @contextmanager
    def _open_connection(self, path: str, deadline: float) -> Iterator[socket.socket]:
        with closing(connect(Path(path), max(0.001, deadline - time.monotonic()))) as connection:
            with self._lock:
                if self._is_closed:
                    raise ReaderRefusal("failed", "killed", "the daemon is stopping")
                self._connections.add(connection)
            try:
                yield connection
            finally:
                with self._lock:
                    self._connections.discard(connection)


def _requested_call(poll: Poll) -> str:
    if isinstance(poll.request, Library) and poll.request.reader == _SOURCE and len(poll.request.calls) == 1:
        call = poll.request.calls[0]
        if call in _CALLS:
            return call
    raise ReaderRefusal("failed", "internal", f"the kubelet reader supports only the calls {' '.join(_CALLS)}")


def _refusal_for(path: str, error: OSError) -> ReaderRefusal:
    if error.errno in _MISSING_ERRNOS:
        return ReaderRefusal("missing", None, path)
    if isinstance(error, UnsafeError):
        return ReaderRefusal("failed", "no_permission", str(error))
    matches = ((reason, text) for error_type, reason, text in _CONNECT_ERRORS if isinstance(error, error_type))
    reason, text = next(matches, ("exit_status", error.strerror or str(error)))
    return ReaderRefusal("failed", reason, f"{path}: {text}")
