"""Job records as in docs/job.schema.json, and the sums of `telemetry jobs`."""

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry_exporters.documents import job_json
from telemetry_exporters.terminal.job_bill import GROUPINGS, Bill
from telemetry_exporters.terminal.style import Colour
from telemetry_parsers.codec.plain import CodecError
from telemetry_parsers.job_record import SCHEMA, CardShare, Gap, JobOwner, JobRecord, ReadingSummary, RecordedTime

DOCS = Path(__file__).parents[2] / "docs"
RECORD, SUMMARY = (json.loads((DOCS / name).read_text()) for name in ("job.schema.json", "jobs.schema.json"))
HOUR = 3600.0


def card(id: str = "GPU-a", hours: float = 1.0, busy: float | None = 0.5, memory: float | None = 2e9) -> CardShare:
    seconds = hours * HOUR
    return CardShare(
        id, "nvidia", "0", "H100", True, True, ("whole",), seconds, 0.0 if busy is None else seconds,
        None if busy is None else busy * seconds, 300.0 * seconds, None, memory,
        {"power_watts": ReadingSummary(seconds, 300.0, 500.0), "temperature_celsius": ReadingSummary(0.0, None, 71.0)}, {"xid_79": 2},
    )  # fmt: skip


def record(
    name: str = "7", *cards: CardShare, host: str = "n1", id: str = "", kind: str = "job", user: str = "u1042"
) -> JobRecord:
    cards = cards or (card(),)
    owner = JobOwner(kind, name, job_id=name, user=user, account="physics", pod_namespace="ml" if kind == "pod" else "")
    busy = [usage.busy_seconds for usage in cards if usage.busy_seconds is not None]
    return JobRecord(
        SCHEMA, (id or f"{host}{name}").encode().hex().zfill(16)[:16], host, owner, RecordedTime(1e9, "hook"), RecordedTime(2e9, "seen"),
        sum(usage.seconds for usage in cards), sum(usage.measured_seconds for usage in cards), sum(busy) if busy else None,
        sum(usage.energy_joules or 0.0 for usage in cards), None, (Gap(1.0, 2.0, 360.0),), cards,
    )  # fmt: skip


UNALLOCATED = record("", card(hours=4.0, busy=0.0), kind="nobody", user="", id="nobody")


def bill(by: str, *records: JobRecord) -> Bill:
    made = Bill(by)
    for item in records:
        made.add(item)
    return made


def rows(by: str, *records: JobRecord) -> list[dict]:
    document = json.loads(bill(by, *records).json())
    jsonschema.Draft202012Validator(SUMMARY).validate(document)
    return [*document["rows"], document["nobody"], document["total"]]


@pytest.mark.parametrize("written", [record(), UNALLOCATED, replace(record(), end=None), record("p", kind="pod")])
def test_a_record_is_of_the_schema_and_is_read_as_it_was_written(written):
    jsonschema.Draft202012Validator.check_schema(RECORD)
    jsonschema.Draft202012Validator(RECORD).validate(json.loads(job_json.line(written)))
    assert job_json.read(job_json.line(written)) == written


def test_the_schemas_know_every_key():
    for schema in (RECORD, *RECORD["$defs"].values(), SUMMARY):
        if schema.get("type") == "object":
            # Records of earlier releases have no source of the energy.
            assert schema["required"] == [key for key in schema["properties"] if key != "energy_source"]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda plain: plain.update(seconds=-1.0),
        lambda plain: plain.update(seconds=1e300),
        lambda plain: plain["cards"][0].update(energy_joules=-1.0),
        lambda plain: plain.update(end="now"),
        lambda plain: plain.pop("owner"),
        lambda plain: plain.update(schema="telemetry.job/2"),
        lambda plain: plain["start"].update(told_by="me"),
    ],
)
def test_invalid_record_is_refused(spoil):
    plain = json.loads(job_json.line(record()))
    spoil(plain)
    with pytest.raises(CodecError):
        job_json.read(json.dumps(plain))


@given(st.one_of(st.binary(), st.text(), st.recursive(st.none() | st.floats() | st.text(), st.lists).map(json.dumps)))
def test_any_invalid_line_raises_codec_error(line):
    with pytest.raises(CodecError):
        job_json.read(line)


def test_a_line_that_is_too_long_is_not_parsed():
    with pytest.raises(CodecError, match="too long"):
        job_json.read(" " * job_json.MAX_LINE_BYTES + job_json.line(record()))


def test_bills_in_every_form(assert_golden):
    """Records of several nodes are joined by job; unmeasured time is neither busy nor idle; the unallocated row is last."""
    records = [
        record("7", host="n1"),
        record("7", card("GPU-b", 3.0, 1.0, 5e9), host="n2"),
        record("8", card(hours=2.0), user="u1077"),
        replace(record("9", card(busy=None, memory=None)), end=None),
        record("p", card(hours=0.5), kind="pod"),
        UNALLOCATED,
    ]
    texts = []
    for by in GROUPINGS:
        rows(by, *records)  # follows the schema
        made = bill(by, *records)
        texts += [f"=== by {by}\n{made.table(Colour.NEVER)}", made.csv().replace("\r\n", "\n"), made.json()]
    assert_golden(Path(__file__).parent / "golden" / "bills.txt", "\n".join(texts))


def test_a_record_that_comes_twice_counts_once_and_the_ended_one_wins():
    running = replace(record("7", card(hours=0.5)), end=None)
    for order in ([running, record("7"), record("7")], [record("7"), running, running]):
        job, *_ = rows("owner", *order)
        assert (job["allocated_hours"], job["running"]) == (1.0, 0)
    job, *_ = rows("owner", running, replace(running, seconds=2 * HOUR))
    assert (job["allocated_hours"], job["running"]) == (2.0, 1)


def test_a_long_name_is_cut_and_no_number_is():
    text = bill("owner", record("x" * 200, card(hours=1e6))).table(Colour.NEVER)
    assert "x" * 47 + "…" in text
    assert "1000000" in text
