"""Plain forms preserve everything; errors name the position of unknown content."""

import json
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codec import strategies
from telemetry_parsers.codec import captures as codec
from telemetry_parsers.codec import worker_answer, worker_wire
from telemetry_parsers.codec.derived import from_plain, to_plain
from telemetry_parsers.model import (
    Absent,
    Capture,
    Command,
    Device,
    Event,
    Failure,
    Files,
    Library,
    Metric,
    Output,
    Poll,
    Problem,
    Process,
    Reading,
    Report,
)

METRIC = Metric("accelerator_acme_x", "gauge", "", "X.")
CAPTURE = Capture(
    source="acme-smi",
    poll="readings",
    request=Command(alternatives=(("acme-smi", "-q"),), env=(("LANG", "C"),)),
    outputs=(Output(name="acme-smi -q", text="Temp 41\n", status=0, data={"a": [1, None, True, "x", 0.5]}),),
    failure=Failure("failed", "timeout", "no answer in 2 s"),
    seconds=0.25,
)
PARSER = codec.DescribedParser(
    contract_version=1,
    name="acme-smi",
    vendor="acme",
    gives=("power_watts",),
    polls=(Poll("readings", Files(globs=("/sys/x",), skip_when=(("vendor", "0x1"),))),),
    metrics=(METRIC,),
)
REPORT = Report(
    devices=(Device("acme", 0, facts=(("firmware", "1"),)),),
    readings=(Reading(0, "power_watts", 80.0), Reading(0, "fan_ratio", Absent.NOT_SUPPORTED)),
    events=(Event(0, "79", "lost"),),
    processes=(Process(0, 12, "train", 1e9),),
    problems=(Problem("line 3", "what?"),),
    facts=(("version", "1.0"),),
)


def through_text(plain: Any) -> Any:
    return codec.decode_line(codec.encode_line(plain))


@given(strategies.captures)
def test_capture_survives_a_round_trip_as_one_ascii_line(capture: Capture) -> None:
    line = codec.encode_line(codec.capture_to_plain(capture))
    assert line.isascii()
    assert "\n" not in line
    assert codec.capture_from_plain(codec.decode_line(line)) == capture


@settings(max_examples=30)
@given(st.data())
@pytest.mark.parametrize(
    ("kind", "values"),
    [(Report, strategies.reports), (Poll, strategies.polls), (codec.DescribedParser, strategies.parsers)],
    ids=["report", "poll", "parser"],
)
def test_other_types_survive_a_round_trip(kind: Any, values: st.SearchStrategy[Any], data: st.DataObject) -> None:
    value = data.draw(values)
    assert from_plain(kind, through_text(to_plain(kind, value))) == value


@given(strategies.plain_data)
def test_decoder_raises_only_its_own_error(plain: Any) -> None:
    for decode in (codec.capture_from_plain, partial(from_plain, Report), partial(from_plain, codec.DescribedParser)):
        with pytest.raises(codec.CodecError):
            decode(plain)


@given(strategies.plain_data, st.data())
def test_a_wrong_field_is_refused_by_name_or_harmless(junk: Any, data: st.DataObject) -> None:
    """With any value in any field, decoding fails at that field or gives a capture that survives a round trip."""
    plain = codec.capture_to_plain(CAPTURE)
    key = data.draw(st.sampled_from(sorted(plain)))
    plain[key] = junk
    try:
        capture = codec.capture_from_plain(plain)
    except codec.CodecError as error:
        path = error.path
    else:
        path = key
        assert codec.capture_from_plain(through_text(codec.capture_to_plain(capture))) == capture
    assert path.startswith(key)


def test_ints_become_floats_where_a_number_is_meant() -> None:
    plain = to_plain(Report, Report(readings=(Reading(None, "power_watts", 1.0),)))
    plain["readings"][0]["value"] = 7
    value = from_plain(Report, plain).readings[0].value
    assert isinstance(value, float)
    assert value == 7.0


# Each row: a value, how to spoil its plain form, and the error in full.
SPOILED: tuple[tuple[Any, Callable[[Any], Any], str], ...] = (
    (CAPTURE, lambda p: p.update(schema="telemetry.capture/2"), "schema: expected telemetry.capture/1, found 'telemetry.capture/2'"),
    (CAPTURE, lambda p: p.update(colour=1), "colour: unknown key"),
    (CAPTURE, lambda p: p.pop("poll"), "poll: missing"),
    (CAPTURE, lambda p: p.update(source=None), "source: expected a string, found None"),
    (CAPTURE, lambda p: p["outputs"][0].update(status="0"), "outputs[0].status: expected a 64-bit integer, found '0'"),
    (CAPTURE, lambda p: p["outputs"][0].update(status=True), "outputs[0].status: expected a 64-bit integer, found True"),
    (CAPTURE, lambda p: p["outputs"][0].update(status=1.0), "outputs[0].status: expected a 64-bit integer, found 1.0"),
    (CAPTURE, lambda p: p["outputs"][0].update(status=2**63), "outputs[0].status: expected a 64-bit integer, found 9223372036854775808"),
    (CAPTURE, lambda p: p.update(seconds=[1]), "seconds: expected a number, found list"),
    (CAPTURE, lambda p: p.update(seconds=True), "seconds: expected a number, found True"),
    (CAPTURE, lambda p: p.update(seconds=math.nan), "seconds: expected a finite number"),
    (CAPTURE, lambda p: p.update(seconds=-math.inf), "seconds: expected a finite number"),
    (CAPTURE, lambda p: p.update(seconds=10**400), "seconds: expected a finite number"),
    (CAPTURE, lambda p: p["outputs"][0].update(data={"a": [0, math.nan]}), "outputs[0].data.a[1]: expected a finite number"),
    (CAPTURE, lambda p: p["outputs"][0].update(data={"a": b""}), "outputs[0].data.a: expected plain data, found bytes"),
    (CAPTURE, lambda p: p["outputs"][0].update(data={1: 2}), "outputs[0].data: expected string keys, found 1"),
    (CAPTURE, lambda p: p.update(outputs={}), "outputs: expected a list, found dict"),
    (CAPTURE, lambda p: p.update(outputs=["x"]), "outputs[0]: expected an object, found 'x'"),
    (CAPTURE, lambda p: p["failure"].update(state="broken"), "failure.state: expected one of ok failed stuck missing no_devices not_mine suspended released disabled not_supported, found 'broken'"),
    (CAPTURE, lambda p: p["failure"].update(reason="x" * 99), "failure.reason: expected one of timeout exit_status not_understood driver_gone no_permission too_much_output library_mismatch killed internal, found 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…"),
    (CAPTURE, lambda p: p["request"].update(kind="shell"), "request.kind: expected one of command files library, found 'shell'"),
    (CAPTURE, lambda p: p.update(request=3), "request.kind: expected one of command files library, found None"),
    (CAPTURE, lambda p: p["request"].update(alternatives=[["a"], ["b", 1]]), "request.alternatives[1][1]: expected a string, found 1"),
    (CAPTURE, lambda p: p["request"].update(env=[["a", "b", "c"]]), "request.env[0]: expected a pair of strings, found list"),
    (CAPTURE, lambda p: p["request"].update(per="die"), "request.per: expected one of card device, found 'die'"),
    (REPORT, lambda p: p["readings"][1].update(value={"absent": "gone"}), "readings[1].value.absent: expected one of not_supported not_permitted not_reported implausible not_understood, found 'gone'"),
    (REPORT, lambda p: p["readings"][0].update(value=None), "readings[0].value: expected a number, found None"),
    (REPORT, lambda p: p.update(outcome=[]), "outcome: expected one of ok no_devices not_mine wrong_request failed, found list"),
    (REPORT, lambda p: p["devices"][0].update(up=1), "devices[0].up: expected true or false, found 1"),
    (REPORT, lambda p: p["devices"][0].pop("uuid"), "devices[0].uuid: missing"),
    (REPORT, lambda p: p["processes"][0].update(pid=None), "processes[0].pid: expected a 64-bit integer, found None"),
    (REPORT, lambda p: p["events"][0].update(wall_time="now"), "events[0].wall_time: expected a number, found 'now'"),
    (PARSER, lambda p: p["polls"][0].update(tier="daily"), "polls[0].tier: expected one of fast slow inventory, found 'daily'"),
    (PARSER, lambda p: p["polls"][0]["request"].update(globs="x"), "polls[0].request.globs: expected a list, found 'x'"),
    (PARSER, lambda p: p["metrics"][0].update(kind="summary"), "metrics[0].kind: expected one of gauge counter info, found 'summary'"),
    (PARSER, lambda p: p.update(gives=[1]), "gives[0]: expected a string, found 1"),
)  # fmt: skip


def test_errors_name_the_position() -> None:
    for value, spoil, error in SPOILED:
        encode, decode = partial(to_plain, type(value)), partial(from_plain, type(value))
        if value is CAPTURE:
            encode, decode = codec.capture_to_plain, codec.capture_from_plain
        plain = json.loads(json.dumps(encode(value)))
        assert decode(plain) == value
        spoil(plain)
        with pytest.raises(codec.CodecError) as caught:
            decode(plain)
        assert str(caught.value) == error


def test_a_line_that_is_not_json_is_refused() -> None:
    for line, error in (
        ("{", "not JSON: Expecting property name"),
        ("[NaN]", "not JSON: NaN is not a number"),
        ("[-Infinity]", "not JSON: -Infinity is not a number"),
        (b"\xff\xfe\xfd", "not JSON: "),
        ("[" * 200_000, "not JSON: nested too deeply"),
        ("9" * 5_000, "not JSON: "),
    ):
        with pytest.raises(codec.CodecError, match=error):
            codec.decode_line(line)


def test_data_other_than_json_is_not_encoded() -> None:
    for plain in (math.nan, [math.inf], {"a": b"x"}, {(1, 2): 3}, object()):
        with pytest.raises(codec.CodecError, match="not JSON data"):
            codec.encode_line(plain)


def test_recorded_line_has_the_documented_form() -> None:
    """Existing recordings depend on this exact text."""
    capture = Capture("acme", "all", Library("acme", ("power",)), (Output("power", status=0, data={"watts": 1.5}),))
    assert codec.encode_line(codec.capture_to_plain(capture)) == (
        '{"schema":"telemetry.capture/1","source":"acme","poll":"all",'
        '"request":{"kind":"library","reader":"acme","calls":["power"]},'
        '"outputs":[{"name":"power","target":"","text":"","stderr":"","status":0,"data":{"watts":1.5}}],'
        '"failure":null,"seconds":0.0,"cpu_seconds":0.0,"wall_time":0.0,"monotonic_time":0.0}'
    )


def test_answers_written_by_workers_match_the_model() -> None:
    """Workers do not import the model, with which the daemon decodes their answers."""
    outputs = (Output("/sys/a", text="7\n", status=0), Output("fast", stderr="lost", status=15, data={"a": [1, None]}))
    by_hand = [
        worker_answer.output("/sys/a", text="7\n", status=0),
        worker_answer.output("fast", stderr="lost", status=15, data={"a": [1, None]}),
    ]
    assert worker_answer.read_result(by_hand) == to_plain(worker_wire.ReadResult, worker_wire.ReadResult(outputs))
    failed = through_text(worker_answer.read_result(failed=worker_answer.failure("stuck", None, "held")))
    assert failed == through_text(
        to_plain(worker_wire.ReadResult, worker_wire.ReadResult(failure=Failure("stuck", None, "held")))
    )
    assert worker_wire.answer_in(worker_answer.answer_line(7, 0.5, None, by_hand)) == worker_wire.Answer(
        7, 0.5, None, by_hand
    )
    fault = worker_wire.Fault("internal", "no such card")
    assert worker_wire.answer_in(
        worker_answer.answer_line(8, 0.5, worker_answer.fault("internal", "no such card"), None)
    ) == worker_wire.Answer(8, 0.5, fault, None)


def test_too_long_answer_is_a_failure_with_its_reason() -> None:
    found = worker_wire.answer_in(worker_answer.answer_line(7, 0.5, None, "x" * worker_answer.LIMIT_BYTES))
    assert (found.id, found.result) == (7, None)
    assert found.error is not None
    assert found.error.reason == "too_much_output"


def test_trusted_result_equals_the_checked_result() -> None:
    """Answers of another version are refused instead of half understood."""
    data = {"gpus": [{"calls": {"Temperature.0": 41, "Name": None}, "gpm": [0.5, True]}]}
    result = through_text(worker_answer.read_result([worker_answer.output("fast", status=0, data=data)]))
    assert worker_wire.decode_trusted_result(result) == worker_wire.decode_checked_result(result)
    assert worker_wire.decode_trusted_result(result).outputs[0].data is result["outputs"][0]["data"]
    failed = through_text(worker_answer.read_result(failed=worker_answer.failure("missing", None, "no library")))
    assert worker_wire.decode_trusted_result(failed) == worker_wire.decode_checked_result(failed)


def test_an_invalid_read_result_is_refused() -> None:
    odd = {"outputs": [], "failed": None}, {"outputs": [{"names": "x"}], "failure": None}
    for result in (None, 7, [], {}, *odd):
        for result_in in (worker_wire.decode_trusted_result, worker_wire.decode_checked_result):
            with pytest.raises(codec.CodecError):
                result_in(result)
