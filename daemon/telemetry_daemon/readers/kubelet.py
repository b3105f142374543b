"""Reads the kubelet: which container has which device, and the names of pods that lie on the node."""

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
from telemetry_daemon.guarded.named import connected
from telemetry_daemon.readers import kubelet_places
from telemetry_daemon.readers.base import Begun, Reader, Targets
from telemetry_parsers.library import ReaderRefusal
from telemetry_parsers.model import Capture, Failure, Library, Output, Plain, Poll, Reason
from telemetry_parsers.owners.device_ids import is_wanted
from telemetry_parsers.owners.pod_resources import DecodeError, allocatable_in, pods_in

_SERVICE = "/v1.PodResourcesLister/"
_SOURCE = "kubelet"
_Decode = Callable[[bytes, Callable[[str], bool]], list[Plain]]
# Each call: the service's method, the name of what it lists, and what decodes that.
_CALLS: Mapping[str, tuple[str, str, _Decode]] = {
    "pods": ("List", "pods", pods_in),
    "allocatable": ("GetAllocatableResources", "devices", allocatable_in),
}
_ABSENT = (errno.ENOENT, errno.ENOTDIR)
_ERRORS: tuple[tuple[type[OSError], Reason, str], ...] = (
    (TimeoutError, "timeout", "no answer before the deadline"),
    (BlockingIOError, "timeout", "the kubelet takes no more connections: too many wait already"),
    (ConnectionRefusedError, "exit_status", "nobody listens there: the kubelet is down, or restarts"),
    (PermissionError, "no_permission", "only user 0 may connect, without any capability: docs/owners.md says how"),
)


def reader(path: str, settings: AttributionSettings) -> KubeletReader:
    """The reader of the kubelet below a folder that stands for /."""
    return KubeletReader(path.rstrip("/"), settings.kubelet_socket, frozenset(settings.resources))


class KubeletReader(Reader):
    """Connects anew for each call: a kubelet that restarts makes its socket anew. Any thread may read.

    `root` is empty or the folder that stands for /, `kubelet_socket` empty where the usual places are meant, `own` the resource names
    of the configuration.
    """

    def __init__(self, root: str, kubelet_socket: str, own: frozenset[str]) -> None:
        self._root = root
        self._sockets = (kubelet_socket,) if kubelet_socket else tuple(kubelet_places.sockets(root))
        self._own = own
        self._turn = threading.Lock()
        self._open: set[socket.socket] = set()
        self._is_closed = False
        # The bytes of each call's last answer, and what they came to.
        self._last: dict[str, tuple[bytes, list[Plain]]] = {}

    def read(self, poll: Poll, targets: Targets) -> Capture:  # noqa: ARG002  # it lists all pods
        """One output: what the kubelet answers to the poll's call, or the failure."""
        begun, cpu = Begun(), time.thread_time()
        outputs: tuple[Output, ...] = ()
        failure: Failure | None = None
        try:
            call = _call_of(poll)
            outputs = (Output(call, status=0, data=self._data(call, begun.monotonic_time + poll.deadline)),)
        except ReaderRefusal as refusal:
            failure = Failure(refusal.state, refusal.reason, refusal.text)
        return begun.capture(_SOURCE, poll, outputs, failure, time.thread_time() - cpu)

    def close(self) -> None:
        """End what is being read."""
        with self._turn:
            self._is_closed = True
            for connection in self._open:
                with suppress(OSError):  # the kubelet ended it already
                    connection.shutdown(socket.SHUT_RDWR)

    def _data(self, call: str, ends: float) -> Plain:
        method, name, decode = _CALLS[call]
        listed = self._decoded(call, decode, self._answer(_SERVICE + method, ends))
        data: dict[str, Plain] = {
            name: listed,
            "resources": sorted(self._own),
            "render_nodes": kubelet_places.render_nodes(self._root),
        }
        if call == "pods":
            # In this order: a pod has its cgroup before its folder, and whoever has ended loses the cgroup first.
            data["folders"] = kubelet_places.log_folders(self._root)
            data["links"] = kubelet_places.log_links(self._root)
            data["living_pod_uids"] = kubelet_places.living_pods(self._root)
        return data

    def _decoded(self, call: str, decode: _Decode, answer: bytes) -> list[Plain]:
        """What the answer says; decoding is half the cost, and an answer is mostly that of the last time."""
        last = self._last.get(call)
        if last is not None and last[0] == answer:
            return last[1]
        try:
            listed = decode(answer, partial(is_wanted, configured=self._own))
        except DecodeError as error:
            raise ReaderRefusal(
                "failed", "not_understood", f"the kubelet's answer cannot be decoded: {error}"
            ) from error
        self._last[call] = (answer, listed)
        return listed

    def _answer(self, method: str, ends: float) -> bytes:
        """The answer of the first kubelet that gives one. Raises ReaderRefusal."""
        refusals = []
        for place in self._sockets:
            answer = self._asked(place, method, ends)
            if isinstance(answer, bytes):
                return answer
            refusals.append(answer)
        missing = ReaderRefusal("missing", None, f"no kubelet has a socket here: {' '.join(self._sockets)}")
        raise next((refusal for refusal in refusals if refusal.state != "missing"), missing)

    def _asked(self, place: str, method: str, ends: float) -> bytes | ReaderRefusal:
        try:
            with self._connection(place, ends) as connection:
                # Only where a kubelet is: h2 takes 1.6 MiB.
                from telemetry_daemon.readers.kubelet_call import call

                return call(connection, method, ends)
        except ReaderRefusal as refusal:
            return ReaderRefusal(refusal.state, refusal.reason, f"{place}: {refusal.text}")
        except OSError as error:
            return _broken(place, error)

    @contextmanager
    def _connection(self, place: str, ends: float) -> Iterator[socket.socket]:
        """A connection that `close` can end."""
        with closing(connected(Path(place), max(0.001, ends - time.monotonic()))) as connection:
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


def _broken(place: str, error: OSError) -> ReaderRefusal:
    """Why nobody could be asked at a place, or the connection ended."""
    if error.errno in _ABSENT:
        return ReaderRefusal("missing", None, place)
    if isinstance(error, UnsafeError):
        return ReaderRefusal("failed", "no_permission", str(error))
    known = ((reason, text) for kind, reason, text in _ERRORS if isinstance(error, kind))
    reason, text = next(known, ("exit_status", error.strerror or str(error)))
    return ReaderRefusal("failed", reason, f"{place}: {text}")
