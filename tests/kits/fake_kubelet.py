"""A kubelet for pod resources: a real gRPC server on its socket, and the files of its pods on the node."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from pathlib import Path

import grpc

from kits.pod_resources import SERVICE, listed

SOCKET = "var/lib/kubelet/pod-resources/kubelet.sock"
Answer = Callable[[grpc.ServicerContext], bytes]


class FakeKubelet:
    """Answers List and GetAllocatableResources, if its driver `has` them; `calls` counts the requests."""

    def __init__(self, root: Path, path: str = SOCKET) -> None:
        self.socket = root / path
        self.list: Answer = lambda _context: listed()
        self.allocatable: Answer = lambda _context: b""
        self.has = ("List", "GetAllocatableResources")
        self.calls = 0
        self._server: grpc.Server | None = None

    def start(self) -> None:
        """Listen with a new socket, as a kubelet does when it starts."""
        self.stop()
        self.socket.parent.mkdir(parents=True, exist_ok=True)
        self.socket.unlink(missing_ok=True)
        answers = {"List": lambda: self.list, "GetAllocatableResources": lambda: self.allocatable}
        handlers = {name: self._handler(answers[name]) for name in self.has}
        self._server = grpc.server(futures.ThreadPoolExecutor(4), options=[("grpc.max_send_message_length", -1)])
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, handlers)])
        # The name of a socket has 107 bytes at most; a folder of a test may be deeper.
        with short(self.socket) as name:
            assert self._server.add_insecure_port(f"unix:{name}")
            self._server.start()

    def stop(self) -> None:
        """Stop at once, and abort the calls that are in progress."""
        if self._server is not None:
            self._server.stop(0).wait()
            self._server = None

    def __enter__(self) -> FakeKubelet:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _handler(self, answer: Callable[[], Answer]) -> grpc.RpcMethodHandler:
        def counted(_request: bytes, context: grpc.ServicerContext) -> bytes:
            self.calls += 1
            return answer()(context)

        return grpc.unary_unary_rpc_method_handler(counted)


@contextlib.contextmanager
def short(path: Path) -> Iterator[str]:
    """Return a short name of a path, by the descriptor of its folder."""
    folder = os.open(path.parent, os.O_PATH)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


class RawServer:
    """A server without gRPC on the socket: each connection is passed to `answer`, and closed after it."""

    def __init__(self, path: Path, answer: Callable[[socket.socket], None]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with short(path) as name:
            self._listener.bind(name)
        self._listener.listen(8)
        self._answer = answer
        self._connections: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def __enter__(self) -> RawServer:
        return self

    def __exit__(self, *_: object) -> None:
        for connection in (self._listener, *self._connections):
            with contextlib.suppress(OSError):  # the other end is gone already
                connection.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # the test is over
            while True:
                connection, _ = self._listener.accept()
                self._connections.append(connection)
                with connection, contextlib.suppress(OSError):  # the client may go whenever it likes
                    self._answer(connection)


def put_on_node(
    root: Path,
    folders: Iterable[tuple[str, str, str]] = (),
    links: Iterable[tuple[str, str, str, str]] = (),
    living: Iterable[str] = (),
) -> None:
    """Write the node's files about pods: (namespace, pod, uid), (namespace, pod, container, id), uids with a cgroup."""
    for namespace, pod, uid in folders:
        (root / "var/log/pods" / f"{namespace}_{pod}_{uid}").mkdir(parents=True, exist_ok=True)
    for namespace, pod, container, container_id in links:
        link = root / "var/log/containers" / f"{pod}_{namespace}_{container}-{container_id}.log"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to("/var/log/pods/elsewhere")
    for uid in living:
        name = f"kubepods-burstable-pod{uid.replace('-', '_')}.slice"
        (root / "sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice" / name).mkdir(parents=True, exist_ok=True)
