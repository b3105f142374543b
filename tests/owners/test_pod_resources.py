"""The decoder reads what protobuf's own library writes, and raises one type of error for everything else."""

import contextlib
import time
from typing import Any

import pytest
from google.protobuf.message import DecodeError as ProtobufError
from hypothesis import given
from hypothesis import strategies as st

from kits.pod_resources import MESSAGES, allocatable, listed, message_classes, pod
from telemetry_parsers.model import Plain
from telemetry_parsers.owners.pod_resources import (
    MAX_ANSWER_BYTES,
    MAX_ENTRIES,
    DecodeError,
    allocatable_in,
    pods_in,
)


def everything(_resource: str) -> bool:
    return True


def test_allocatable_devices() -> None:
    answer = allocatable({"amd.com/gpu": ("0000:19:00.0", "amdgpu_xcp_1")})
    assert allocatable_in(answer, everything) == [
        {"resource": "amd.com/gpu", "device": "0000:19:00.0"},
        {"resource": "amd.com/gpu", "device": "amdgpu_xcp_1"},
    ]


def test_only_wanted_resources_are_kept() -> None:
    answer = listed(pod("a", "b", {"c": {"rdma/hca": ("x",), "amd.com/gpu": ("y",)}}, {"dra.net": ("z",)}))
    [found] = pods_in(answer, lambda name: name == "amd.com/gpu")
    assert found["containers"][0]["devices"] == [{"resource": "amd.com/gpu", "device": "y"}]
    assert found["containers"][0]["drawn"] == []


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        pytest.param(b"\x0a", "ends inside an integer", id="no length"),
        pytest.param(b"\x0a\x05abc", "longer than its message", id="half a message"),
        pytest.param(b"\x0a\x03\x0a\x02a", "longer than its message", id="half an inner message"),
        pytest.param(b"\x0a\x04\x0a\x02\xff\xfe", "not UTF-8", id="no text"),
        pytest.param(b"\x02\x00", "number 0", id="field 0"),
        pytest.param(b"\x0b", "wire type 3", id="group"),
        pytest.param(b"\x0f", "wire type 7", id="no kind"),
        pytest.param(b"\x80" * 11, "is too long", id="endless number"),
        pytest.param(b"\x0d\x00\x00", "longer than its message", id="half a fixed number"),
        pytest.param(b"\x00" * (MAX_ANSWER_BYTES + 1), "larger than 4 MiB", id="too large"),
        pytest.param(b"\x0a\x00" * (MAX_ENTRIES + 1), "more than 4096 pods", id="too many pods"),
    ],
)
def test_invalid_answer_is_reported(answer: bytes, words: str) -> None:
    with pytest.raises(DecodeError, match=words):
        pods_in(answer, everything)


def test_too_many_wanted_devices_are_reported() -> None:
    answer = allocatable({"a.com/gpu": tuple(map(str, range(MAX_ENTRIES))), "b.com/kvm": ("k",) * MAX_ENTRIES})
    assert len(allocatable_in(answer, lambda name: name == "a.com/gpu")) == MAX_ENTRIES
    with pytest.raises(DecodeError, match="more than 4096 devices"):
        allocatable_in(answer, everything)


@pytest.mark.parametrize(
    "piece",
    [
        pytest.param(b"\x0a\x00", id="empty pods"),
        pytest.param(b"\x10\x01", id="numbers"),
        pytest.param(b"\xff", id="endless numbers"),
        pytest.param(b"\x0a\x06\x1a\x04\x12\x02\x12\x00", id="deep"),
        pytest.param(b"\x12\x00", id="unknown fields"),
    ],
)
def test_a_mebibyte_of_anything_is_decoded_in_time(piece: bytes) -> None:
    """A fraction of a second if decoding is linear, minutes if it is quadratic."""
    answer = piece * (2**20 // len(piece))
    begun = time.process_time()
    with contextlib.suppress(DecodeError):  # that is an answer, too
        pods_in(answer, everything)
    assert time.process_time() - begun < 20


@given(st.binary(max_size=300))
def test_any_bytes_are_an_answer_or_a_decode_error(data: bytes) -> None:
    with contextlib.suppress(DecodeError):  # one of the two answers that are allowed
        assert isinstance(pods_in(data, everything), list)
    with contextlib.suppress(DecodeError):  # one of the two answers that are allowed
        assert isinstance(allocatable_in(data, everything), list)


TEXT = st.text(max_size=12)


def messages(name: str) -> st.SearchStrategy[dict[str, Any]]:
    fields = {}
    for field, _, kind in MESSAGES[name]:
        base = kind.strip("[]")
        value = {"string": TEXT, "int64": st.integers(-(2**63), 2**63 - 1), "uint64": st.integers(0, 2**64 - 1)}.get(
            base
        )
        strategy = messages(base) if value is None else value
        fields[field] = st.lists(strategy, max_size=3) if kind.startswith("[") else strategy
    return st.fixed_dictionaries({}, optional=fields)


def expected(pod_resources: Any) -> Plain:
    return {
        "namespace": pod_resources.namespace,
        "pod_name": pod_resources.name,
        "containers": [
            {
                "container_name": container.name,
                "devices": [
                    {"resource": entry.resource_name, "device": device_id}
                    for entry in container.devices
                    for device_id in entry.device_ids
                ],
                "drawn": [
                    {"driver": entry.driver_name, "device": entry.device_name, "share": entry.share_id}
                    for dynamic in container.dynamic_resources
                    for entry in dynamic.claim_resources
                ],
            }
            for container in pod_resources.containers
        ],
    }


@given(messages("ListPodResourcesResponse"))
def test_it_reads_whatever_protobuf_writes(message: dict[str, Any]) -> None:
    made = message_classes()["ListPodResourcesResponse"](**message)
    assert pods_in(made.SerializeToString(), everything) == [expected(entry) for entry in made.pod_resources]


@given(messages("ListPodResourcesResponse"), st.data())
def test_damaged_messages_are_read_as_protobuf_reads_them(message: dict[str, Any], data: st.DataObject) -> None:
    whole = message_classes()["ListPodResourcesResponse"](**message).SerializeToString()
    at, byte = data.draw(st.integers(0, len(whole))), data.draw(st.integers(0, 255))
    damaged = whole[:at] + bytes([byte]) + whole[at + data.draw(st.integers(0, 1)) :]
    try:
        found = pods_in(damaged, everything)
        made = message_classes()["ListPodResourcesResponse"].FromString(damaged)
    except (DecodeError, ProtobufError):  # our decoder may accept errors in fields that it skips
        return
    assert found == [expected(entry) for entry in made.pod_resources]
