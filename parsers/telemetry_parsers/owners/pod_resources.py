"""Decodes the kubelet's protobuf answers about pod resources into plain data.

The messages are defined by `v1.PodResourcesLister`: https://github.com/kubernetes/kubelet, pkg/apis/podresources/v1/api.proto.
Decoding takes linear time: each byte is read once per enclosing message, and at most five messages are nested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.model import Plain

MAX_ANSWER_BYTES = 4 << 20
# No real node has as many pods, containers or devices.
MAX_ENTRIES = 4096

# A function that takes the name of a resource or driver, and returns whether to decode its devices.
IsWanted = Callable[[str], bool]
_Span = tuple[int, int]  # (start, end) in bytes

_VARINT, _EIGHT_BYTES, _LENGTH, _FOUR_BYTES = 0, 1, 2, 5
_MAX_VARINT_BYTES = 10


class DecodeError(ValueError):
    """The bytes are not a valid message."""


def pods_in(answer: bytes, is_wanted: IsWanted) -> list[Plain]:
    """Return the pods of a List answer with their wanted devices. Raise DecodeError for a malformed answer.

    A pod is `{"namespace", "pod_name", "containers": [{"container_name", "devices": [{"resource", "device"}],
    "drawn": [{"driver", "device", "share"}]}]}`. `drawn` lists the devices from dynamic resource allocation.
    """
    return _Answer(_check_size(answer), is_wanted).pods()


def allocatable_in(answer: bytes, is_wanted: IsWanted) -> list[Plain]:
    """Return the wanted devices of a GetAllocatableResources answer. Raise DecodeError for a malformed answer."""
    return _Answer(_check_size(answer), is_wanted).allocatable()


def _check_size(answer: bytes) -> bytes:
    if len(answer) > MAX_ANSWER_BYTES:
        raise DecodeError(f"the answer is larger than {MAX_ANSWER_BYTES >> 20} MiB")
    return answer


@dataclass(slots=True)
class _Answer:
    """Decodes the bytes of one answer, and counts the decoded entries of each kind."""

    data: bytes
    is_wanted: IsWanted
    counts: dict[str, int] = field(default_factory=dict)

    def pods(self) -> list[Plain]:
        return [self._decode_pod(span) for span in self._messages((0, len(self.data)), 1)]

    def allocatable(self) -> list[Plain]:
        return self._decode_devices((0, len(self.data)), 1)

    def _decode_pod(self, span: _Span) -> Plain:
        self._count_entry("pods")
        names = self._texts(span, (1, 2))
        containers = [self._decode_container(message) for message in self._messages(span, 3)]
        return {"namespace": names[2], "pod_name": names[1], "containers": containers}

    def _decode_container(self, span: _Span) -> Plain:
        self._count_entry("containers")
        drawn = [device for dynamic in self._messages(span, 5) for device in self._decode_dynamic_devices(dynamic)]
        return {"container_name": self._texts(span, (1,))[1], "devices": self._decode_devices(span, 2), "drawn": drawn}

    def _decode_devices(self, span: _Span, field_number: int) -> list[Plain]:
        devices: list[Plain] = []
        for message in self._messages(span, field_number):
            resource = self._texts(message, (1,))[1]
            if not self.is_wanted(resource):
                continue
            for device in self._messages(message, 2):
                self._count_entry("devices")
                devices.append({"resource": resource, "device": self._decode_text(device)})
        return devices

    def _decode_dynamic_devices(self, span: _Span) -> Iterator[Plain]:
        for message in self._messages(span, 4):
            names = self._texts(message, (2, 4, 5))
            if self.is_wanted(names[2]):
                self._count_entry("devices")
                yield {"driver": names[2], "device": names[4], "share": names[5]}

    def _count_entry(self, kind: str) -> None:
        count = self.counts[kind] = self.counts.get(kind, 0) + 1
        if count > MAX_ENTRIES:
            raise DecodeError(f"the answer has more than {MAX_ENTRIES} {kind}")

    def _messages(self, span: _Span, field_number: int) -> Iterator[_Span]:
        return (value for number, value in _length_delimited_fields(self.data, span) if number == field_number)

    def _texts(self, span: _Span, field_numbers: tuple[int, ...]) -> dict[int, str]:
        """Return the last text of each of these fields, or "" for a missing field."""
        texts = dict.fromkeys(field_numbers, "")
        for number, value in _length_delimited_fields(self.data, span):
            if number in texts:
                texts[number] = self._decode_text(value)
        return texts

    def _decode_text(self, span: _Span) -> str:
        try:
            return str(self.data[span[0] : span[1]], "utf-8")
        except UnicodeDecodeError:
            raise DecodeError(f"the text at byte {span[0]} is not UTF-8") from None


def _length_delimited_fields(data: bytes, span: _Span) -> Iterator[tuple[int, _Span]]:
    """Yield the number and the span of each length-delimited field of a message."""
    offset, end = span
    while offset < end:
        key, offset = _decode_varint(data, offset, end)
        field_number, wire_type = key >> 3, key & 7
        if not field_number:
            raise DecodeError(f"the field before byte {offset} has the invalid number 0")
        start = offset
        if wire_type == _VARINT:
            _, offset = _decode_varint(data, offset, end)
        elif wire_type == _LENGTH:
            length, start = _decode_varint(data, offset, end)
            offset = start + length
        elif wire_type in (_EIGHT_BYTES, _FOUR_BYTES):
            offset += 8 if wire_type == _EIGHT_BYTES else 4
        else:
            raise DecodeError(f"the field before byte {offset} has the unsupported wire type {wire_type}")
        if offset > end:
            raise DecodeError(f"the field at byte {start} is longer than its message")
        if wire_type == _LENGTH:
            yield field_number, (start, offset)


def _decode_varint(data: bytes, offset: int, end: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 7 * _MAX_VARINT_BYTES, 7):
        if offset >= end:
            raise DecodeError("the message ends inside an integer")
        byte = data[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, offset
    raise DecodeError(f"the integer before byte {offset} is too long")
