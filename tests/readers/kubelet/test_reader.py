"""The reader against a real gRPC server: an answer, or one clear failure."""

import os
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from kits.fake_kubelet import SOCKET, FakeKubelet, RawServer, put_on_node
from kits.pod_resources import allocatable, listed, pod
from kits.waiting import PATIENCE_SECONDS
from telemetry_daemon.config.optional_sections import AttributionSettings
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.readers.kubelet import KubeletReader, create_reader
from telemetry_parsers.model import Capture, Command
from telemetry_parsers.owners.kubelet import PARSER
from telemetry_parsers.owners.pod_resources import MAX_ANSWER_BYTES

PODS, ALLOCATABLE = PARSER.polls
GPU = "GPU-1a2b3c4d-0001-0002-0003-0123456789ab"
UID, OTHER_UID = (f"0000000{number}-4d1e-4c6b-9a53-0c7d2e81f6a0" for number in (1, 2))

KIND = "kubelet.slice/kubelet-kubepods.slice"


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[FakeKubelet]:
    with FakeKubelet(tmp_path) as server:
        server.list = lambda _context: listed(pod("team", "a", {"main": {"nvidia.com/gpu": (GPU,)}}))
        yield server


def reader_of(root: Path, **settings: object) -> KubeletReader:
    return create_reader(str(root), replace(AttributionSettings(enabled=True), **settings))  # type: ignore[arg-type]  # as the tests name them


def read(root: Path, poll: str = "pods", deadline: float = 60.0) -> Capture:
    containers = PODS if poll == "pods" else ALLOCATABLE
    return reader_of(root).read(replace(containers, deadline=deadline), Targets())


def failure(capture: Capture) -> tuple[str, str | None, str]:
    assert capture.failure is not None
    assert capture.outputs == ()
    assert capture.failure.text.isprintable()
    return capture.failure.state, capture.failure.reason, capture.failure.text


def owners(capture: Capture) -> list[str]:
    assert capture.failure is None, capture.failure
    return [claim.owner.name for claim in PARSER.parse(capture).claims]


def test_pods_and_allocatable_devices_are_read(kubelet: FakeKubelet, tmp_path: Path) -> None:
    kubelet.allocatable = lambda _context: allocatable({"nvidia.com/gpu": (GPU,), "rdma/hca": ("x",)})
    assert owners(read(tmp_path)) == ["team/a/main"]
    [output] = read(tmp_path, "allocatable").outputs
    assert output.data["devices"] == [{"resource": "nvidia.com/gpu", "device": GPU}]


def test_folders_of_the_node_about_pods_are_reported(kubelet: FakeKubelet, tmp_path: Path) -> None:
    put_on_node(tmp_path, [("team", "a", UID), ("team", "b", OTHER_UID)], [("team", "a", "main", "ab" * 32)], [UID])
    for name in ("readme", "a_b", "a_b_c", "x_y_" + "g" * 36):
        (tmp_path / "var/log/pods" / name).mkdir()
    (tmp_path / "sys/class/drm/renderD131").mkdir(parents=True)
    (tmp_path / "sys/class/drm/renderD131/device").symlink_to("../../../amdgpu_xcp_3")
    [output] = read(tmp_path).outputs
    assert [(folder["pod_name"], folder["pod_uid"]) for folder in output.data["folders"]] == [
        ("a", UID),
        ("b", OTHER_UID),
    ]
    assert [link["container_id"] for link in output.data["links"]] == ["ab" * 32]
    assert output.data["living_pod_uids"] == [UID]
    assert output.data["render_nodes"] == [{"at": "amdgpu_xcp_3", "render": "131"}]


@pytest.mark.parametrize(
    ("folder", "uid"),
    [
        (f"kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice", UID),
        (f"memory/kubepods/burstable/pod{UID}", UID),
        (f"memory/kubepods/pod{UID}", UID),
        ("kubepods/besteffort/pod" + "ab" * 16, "ab" * 16),
        ("system.slice", None),  # no cgroups of pods are to be seen
        (f"{KIND}/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod{UID.replace('-', '_')}.slice", UID),
    ],
)
def test_pods_live_whose_cgroup_is_there(kubelet: FakeKubelet, tmp_path: Path, folder: str, uid: str | None) -> None:
    (tmp_path / "sys/fs/cgroup" / folder).mkdir(parents=True)
    [output] = read(tmp_path).outputs
    assert output.data["living_pod_uids"] == (None if uid is None else [uid])


def test_the_kubelet_is_found_where_distributions_or_the_configuration_put_it(tmp_path: Path) -> None:
    """Also if there is a dead socket of another distribution's kubelet."""
    with RawServer(tmp_path / SOCKET, lambda _connection: None):
        pass
    for kubelet_reader in ("snap/microk8s/common/var/lib/kubelet", "lib/k0s/kubelet", "lib/rancher/k3s/agent/kubelet"):
        with FakeKubelet(tmp_path, f"var/{kubelet_reader}/pod-resources/kubelet.sock"):
            assert owners(read(tmp_path)) == []
    with FakeKubelet(tmp_path, "elsewhere/k.sock") as kubelet:
        found = reader_of(tmp_path / "nowhere", kubelet_socket=str(kubelet.socket))
        assert owners(found.read(PODS, Targets())) == []


def test_an_unchanged_answer_is_decoded_once(kubelet: FakeKubelet, tmp_path: Path) -> None:
    kubelet_reader = reader_of(tmp_path)
    first, second = (kubelet_reader.read(PODS, Targets()).outputs[0].data["pods"] for _ in range(2))
    assert first is second
    kubelet.list = lambda _context: listed(pod("team", "b", {"main": {}}))
    assert owners(kubelet_reader.read(PODS, Targets())) == ["team/b/main"]
    assert kubelet.calls == 3


def test_resource_names_of_the_configuration_are_asked_for(kubelet: FakeKubelet, tmp_path: Path) -> None:
    kubelet.list = lambda _context: listed(pod("team", "a", {"main": {"example.com/gpu": ("3",)}}))
    for resources, names in (((), 0), (("example.com/gpu",), 1)):
        [claim] = PARSER.parse(reader_of(tmp_path, resources=resources).read(PODS, Targets())).claims
        assert len(claim.names) == names


def test_an_answer_of_more_than_four_mebibytes_or_of_something_else_is_refused(
    kubelet: FakeKubelet, tmp_path: Path
) -> None:
    kubelet.list = lambda _context: b"\x0a\x00" * (MAX_ANSWER_BYTES // 2 + 1)
    state, reason, text = failure(read(tmp_path))
    assert (state, reason) == ("failed", "too_much_output")
    assert "4 MiB" in text
    kubelet.list = lambda _context: b"\xff\xff"
    assert failure(read(tmp_path))[:2] == ("failed", "not_understood")


# A kubelet's refusal: code, message, and the resulting failure.
REFUSALS = [
    (grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit", ("failed", "exit_status"), "too many requests"),
    (grpc.StatusCode.INTERNAL, "Gerät 50 % voll\nund «weg»", ("failed", "exit_status"), "Gerät 50 % voll und «weg»"),
    (grpc.StatusCode.UNKNOWN, "\x1b[31m<b>\u202e" + "x" * 5000, ("failed", "exit_status"), "gRPC status 2"),
    (grpc.StatusCode.PERMISSION_DENIED, "no", ("failed", "no_permission"), "does not permit"),
    (grpc.StatusCode.DEADLINE_EXCEEDED, "late", ("failed", "timeout"), "in time"),
    (grpc.StatusCode.UNIMPLEMENTED, "unknown method", ("not_supported", None), "1.23"),
]


@pytest.mark.parametrize(("code", "message", "expected", "words"), REFUSALS)
def test_a_refusal_is_reported(
    kubelet: FakeKubelet, tmp_path: Path, code: grpc.StatusCode, message: str, expected: tuple[str, str], words: str
) -> None:
    kubelet.list = lambda context: context.abort(code, message)
    state, reason, text = failure(read(tmp_path))
    assert (state, reason) == expected
    assert words in text
    assert len(text) < 600


def test_a_slow_kubelet_is_waited_for_until_the_deadline(kubelet: FakeKubelet, tmp_path: Path) -> None:
    ended = threading.Event()
    kubelet.list = lambda _context: listed() if ended.wait(600) else b""
    try:
        assert failure(read(tmp_path, deadline=0.5))[:2] == ("failed", "timeout")
    finally:
        ended.set()
    kubelet.list = lambda _context: listed()
    assert owners(read(tmp_path)) == []


def test_closing_ends_a_read_at_once(kubelet: FakeKubelet, tmp_path: Path) -> None:
    asked, ended = threading.Event(), threading.Event()

    def slow(_context: grpc.ServicerContext) -> bytes:
        asked.set()
        ended.wait(600)
        return listed()

    kubelet.list = slow
    kubelet_reader = reader_of(tmp_path)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(kubelet_reader.read, replace(PODS, deadline=600), Targets())
        try:
            assert asked.wait(PATIENCE_SECONDS)
            kubelet_reader.close()
            kubelet_reader.close()
            assert failure(waiting.result(PATIENCE_SECONDS))[0] == "failed"
            assert failure(kubelet_reader.read(PODS, Targets()))[:2] == ("failed", "killed")
            assert kubelet_reader.leftover_pids() == ()
        finally:
            ended.set()


def test_source_without_a_kubelet_is_missing(tmp_path: Path) -> None:
    state, reason, text = failure(read(tmp_path))
    assert (state, reason) == ("missing", None)
    assert f"{tmp_path}/{SOCKET}" in text


def test_a_kubelet_that_restarts_is_found_again(kubelet: FakeKubelet, tmp_path: Path) -> None:
    """Its socket disappears, is dead, and is back under another inode."""
    kubelet_reader = reader_of(tmp_path)
    assert owners(kubelet_reader.read(PODS, Targets())) == ["team/a/main"]
    kubelet.stop()
    kubelet.socket.unlink(missing_ok=True)
    assert failure(kubelet_reader.read(PODS, Targets()))[0] == "missing"
    with RawServer(kubelet.socket, lambda _connection: None):
        pass
    state, reason, text = failure(kubelet_reader.read(PODS, Targets()))
    assert (state, reason) == ("failed", "exit_status")
    assert "no process listens" in text
    kubelet.start()
    assert owners(kubelet_reader.read(PODS, Targets())) == ["team/a/main"]


@pytest.mark.needs("root")
@pytest.mark.parametrize("mode", [0o700, 0o755])
def test_missing_root_rights_are_reported(mode: int) -> None:
    with tempfile.TemporaryDirectory() as folder, FakeKubelet(Path(folder)) as kubelet:
        for kubelet_reader in kubelet.socket.relative_to(folder).parents:
            (Path(folder) / kubelet_reader).chmod(0o755)
        kubelet.socket.chmod(0o755)
        kubelet.socket.parent.chmod(mode)
        os.seteuid(65534)
        try:
            capture = read(Path(folder))
        finally:
            os.seteuid(0)
        state, reason, text = failure(capture)
        assert (state, reason) == ("failed", "no_permission")
        assert "user 0" in text


@pytest.mark.parametrize("kind", ["file", "folder", "link", "fifo"])
def test_file_that_is_no_socket_is_not_connected_to(tmp_path: Path, kind: str) -> None:
    path = tmp_path / SOCKET
    path.parent.mkdir(parents=True)
    with FakeKubelet(tmp_path, "real.sock"):
        {
            "file": path.touch,
            "folder": path.mkdir,
            "link": lambda: path.symlink_to(tmp_path / "real.sock"),
            "fifo": lambda: os.mkfifo(path),
        }[kind]()
        state, reason, text = failure(read(tmp_path))
    assert (state, reason) == ("failed", "no_permission")
    assert "is not a socket" in text


def test_request_of_another_kind_fails(tmp_path: Path) -> None:
    wrong = replace(PODS, request=Command((("kubectl",),)))
    assert failure(reader_of(tmp_path).read(wrong, Targets()))[:2] == ("failed", "internal")
