"""The document `telemetry.job/1`: lines of `jobs.jsonl`, written and read again."""

from __future__ import annotations

from telemetry_exporters.text import cleaned
from telemetry_parsers.codec.derived import from_plain, to_plain
from telemetry_parsers.codec.plain import CodecError, decode_line, encode_line
from telemetry_parsers.job_record import CardShare, JobRecord

LONGEST_LINE_BYTES = 1 << 20
# More than all cards of the world come to in a century.
_MOST = 1e18


def line(record: JobRecord) -> str:
    """The record as one line of JSON without its end; its texts are safe to print."""
    return encode_line(to_plain(JobRecord, cleaned(record)))


def read(text: str | bytes) -> JobRecord:
    """The record in a line. Raises CodecError."""
    if len(text) > LONGEST_LINE_BYTES:
        raise CodecError("", "the line is too long")
    return checked(from_plain(JobRecord, decode_line(text)))


def checked(record: JobRecord) -> JobRecord:
    """The record with clean texts, if its sums may be true. Raises CodecError."""
    records: tuple[JobRecord | CardShare, ...] = (record, *record.cards)
    sums = ((one.seconds, one.measured_seconds, one.busy_seconds, one.energy_joules) for one in records)
    if not all(0.0 <= number <= _MOST for numbers in sums for number in numbers if number is not None):
        raise CodecError("", "a sum that no card can come to")
    return cleaned(record)
