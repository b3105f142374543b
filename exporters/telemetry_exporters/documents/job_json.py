"""The document `telemetry.job/1`, which is a line of `jobs.jsonl`."""

from __future__ import annotations

from telemetry_exporters.text import deep_clean
from telemetry_parsers.codec.derived import from_plain, to_plain
from telemetry_parsers.codec.plain import CodecError, decode_line, encode_line
from telemetry_parsers.job_record import CardShare, JobRecord

MAX_LINE_BYTES = 1 << 20
# Larger than any sum of seconds or joules that cards can reach.
_MAX_SUM = 1e18


def line(record: JobRecord) -> str:
    """Return the record as a JSON line that is safe to print."""
    return encode_line(to_plain(JobRecord, deep_clean(record)))


def read(text: str | bytes) -> JobRecord:
    """Parse a job record from a JSON line. Raise CodecError if the line is too long or invalid."""
    if len(text) > MAX_LINE_BYTES:
        raise CodecError("", "the line is too long")
    return clean_record(from_plain(JobRecord, decode_line(text)))


def clean_record(record: JobRecord) -> JobRecord:
    """Return the record with printable strings. Raise CodecError if a sum is negative or too large."""
    records: tuple[JobRecord | CardShare, ...] = (record, *record.cards)
    sums = ((item.seconds, item.measured_seconds, item.busy_seconds, item.energy_joules) for item in records)
    if not all(0.0 <= number <= _MAX_SUM for numbers in sums for number in numbers if number is not None):
        raise CodecError("", "a sum is negative or too large")
    return deep_clean(record)
