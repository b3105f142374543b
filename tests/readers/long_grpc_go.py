"""The reader against the kubelet's own Go module behind grpc-go, which every kubelet uses."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kits.fake_kubelet import SOCKET
from telemetry_daemon.config.optional_sections import AttributionSettings
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.readers.kubelet import create_reader
from telemetry_parsers.owners.kubelet import PARSER

PODS, ALLOCATABLE = PARSER.polls
SOURCES = Path(__file__).with_name("grpc_go")
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("go") / "kubelet"
    subprocess.run(["go", "mod", "download"], cwd=SOURCES, check=True, timeout=120)
    subprocess.run(["go", "build", "-mod=readonly", "-o", built, "."], cwd=SOURCES, check=True, timeout=280)
    return built


@contextmanager
def serving(program: Path, root: Path, pods: int) -> Iterator[None]:
    path = root / SOCKET
    path.parent.mkdir(parents=True)
    with subprocess.Popen([program, SOCKET, str(pods)], cwd=root, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == "ready\n"
            yield
        finally:
            server.terminate()


@pytest.mark.parametrize("pods", [0, 1, 110, 500])
def test_pods_are_read(program: Path, tmp_path: Path, pods: int) -> None:
    with serving(program, tmp_path, pods):
        made = create_reader(str(tmp_path), AttributionSettings(enabled=True))
        captures = [made.read(PODS, Targets()) for _ in range(3)]
    for capture in captures:
        assert capture.failure is None
        report = PARSER.parse(capture)
        assert report.problems == ()
        names = [(claim.owner.name, *(name.value for name in claim.names)) for claim in report.claims]
        assert names == [
            (f"team/pod-{number}/main", device)
            for number in range(pods)
            for device in (f"GPU-{number:08x}-0000-0000-0000-000000000000", str(number))
        ]


def test_a_list_that_no_node_has_is_refused(program: Path, tmp_path: Path) -> None:
    """A list of 20,000 pods arrives whole, 1 MB in many frames, and exceeds the limits."""
    with serving(program, tmp_path, 20_000):
        capture = create_reader(str(tmp_path), AttributionSettings(enabled=True)).read(PODS, Targets())
    assert capture.failure is not None
    assert (capture.failure.reason, "more than 4096 devices" in capture.failure.text) == ("not_understood", True)


def test_a_refusal_is_reported(program: Path, tmp_path: Path) -> None:
    with serving(program, tmp_path, 1):
        capture = create_reader(str(tmp_path), AttributionSettings(enabled=True)).read(ALLOCATABLE, Targets())
    assert capture.failure is not None
    assert "(gRPC status 8: zu viel: 50 % «später»)" in capture.failure.text
