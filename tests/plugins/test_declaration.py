"""What a parser says of itself is judged by rules that name each violation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from telemetry_parsers.codec import DescribedParser
from telemetry_parsers.declaration import rows, violations
from telemetry_parsers.metrics import BY_KEY
from telemetry_parsers.model import Command, Files, Library, Metric, Poll

METRIC = Metric("accelerator_acme_voltage_ratio", "gauge", "ratio", "Voltage over nominal.", 0, 2)
GOOD = DescribedParser(
    contract_version=1,
    name="acme-smi",
    vendor="acme",
    gives=("power_watts", "acme_voltage_ratio"),
    polls=(Poll("all", Command((("acme-smi", "-q"),))),),
    metrics=(METRIC,),
)


def with_metric(**changes: Any) -> DescribedParser:
    metric = replace(METRIC, **changes)
    return replace(GOOD, metrics=(metric,), gives=(metric.key,))


def with_poll(**changes: Any) -> DescribedParser:
    return replace(GOOD, polls=(replace(GOOD.polls[0], **changes),))


def test_a_good_declaration_has_no_violation() -> None:
    assert violations(GOOD) == ()


@pytest.mark.parametrize(
    "parser",
    [
        with_metric(name="accelerator_acme_resets_total", kind="counter", unit=""),
        with_metric(name="accelerator_acme_idle_seconds_total", kind="counter", unit="seconds"),
        with_metric(label="rail", words=("core", "io_1")),
        with_poll(request=Files(globs=("/sys/class/acme/*/temp",))),
        with_poll(request=Library("acme", ("power",))),
        with_poll(request=Command((("acme-smi", "-i", "{device}"),), per="device", folders=("/opt/acme",))),
        replace(GOOD, vendor="", gives=("telemetry_host_load1",), metrics=()),
    ],
)
def test_what_is_allowed(parser: DescribedParser) -> None:
    assert violations(parser) == ()


BROKEN: tuple[tuple[DescribedParser, str], ...] = (
    (replace(GOOD, contract_version=2), "it is written for contract version 2, this is version 1"),
    (replace(GOOD, name="Acme SMI"), "name 'Acme SMI' must be lower-case letters, digits, single hyphens; at most 40"),
    (replace(GOOD, name="a" * 41), f"name '{'a' * 41}' must be lower-case letters, digits, single hyphens; at most 40"),
    (replace(GOOD, name="acme\n"), "name 'acme\\n' must be lower-case letters, digits, single hyphens; at most 40"),
    (replace(GOOD, vendor="acme-corp", gives=("power_watts",), metrics=()), "vendor 'acme-corp' must be lower-case letters and digits"),
    (replace(GOOD, vendor="", gives=("power_watts",), metrics=()), "vendor '' must be lower-case letters and digits"),
    (replace(GOOD, gives=(), metrics=()), "gives no metric"),
    (replace(GOOD, gives=("power_watts",) * 2, metrics=()), "gives power_watts 2 times"),
    (replace(GOOD, gives=("up",), metrics=()), "gives up, which the daemon makes itself"),
    (replace(GOOD, gives=("power",), metrics=()), "gives 'power', which is neither in the catalogue nor among its metrics"),
    (replace(GOOD, gives=("telemetry_source_up",), metrics=()), "gives 'telemetry_source_up', which is neither in the catalogue nor among its metrics"),
    (replace(GOOD, gives=("power_watts",)), "declares metric acme_voltage_ratio but does not give it"),
    (with_metric(name="accelerator_other_voltage_ratio"), "metric accelerator_other_voltage_ratio: its name must be accelerator_acme_ and lower-case letters, digits, underscores"),
    (with_metric(name="accelerator_acme_Voltage_ratio"), "metric accelerator_acme_Voltage_ratio: its name must be accelerator_acme_ and lower-case letters, digits, underscores"),
    (with_metric(name="accelerator_acme_resets", kind="counter", unit=""), "metric accelerator_acme_resets: _total is for counters, and counters are for _total"),
    (with_metric(name="accelerator_acme_resets_total", unit=""), "metric accelerator_acme_resets_total: _total is for counters, and counters are for _total"),
    (with_metric(name="accelerator_acme_voltage_millivolts", unit="millivolts"), "metric accelerator_acme_voltage_millivolts: its unit must be a base unit (bytes celsius hertz joules ratio seconds watts), and its name must end in it"),
    (with_metric(unit="watts"), "metric accelerator_acme_voltage_ratio: its unit must be a base unit (bytes celsius hertz joules ratio seconds watts), and its name must end in it"),
    (with_metric(kind="info"), "metric accelerator_acme_voltage_ratio: a parser's own metrics are gauges and counters of devices, and not core"),
    (with_metric(core=True), "metric accelerator_acme_voltage_ratio: a parser's own metrics are gauges and counters of devices, and not core"),
    (with_metric(help=" "), "metric accelerator_acme_voltage_ratio: its help must be one line"),
    (with_metric(help="a\nb"), "metric accelerator_acme_voltage_ratio: its help must be one line"),
    (with_metric(low=2), "metric accelerator_acme_voltage_ratio: its range goes from 2 to 2"),
    (with_metric(label="device"), "metric accelerator_acme_voltage_ratio: its label 'device' is taken, or no lower-case word"),
    (with_metric(label="Rail"), "metric accelerator_acme_voltage_ratio: its label 'Rail' is taken, or no lower-case word"),
    (with_metric(words=("a",)), "metric accelerator_acme_voltage_ratio: it has words for a label but no label"),
    (with_metric(label="rail", words=("a b",)), "metric accelerator_acme_voltage_ratio: its word 'a b' must be lower-case letters, digits, underscores"),
    (replace(GOOD, polls=()), "has no poll"),
    (replace(GOOD, polls=GOOD.polls * 2), "has 2 polls named all"),
    (with_poll(lists_devices=False), "has no poll that lists devices"),
    (with_poll(name="all of it"), "poll all of it: its name must be lower-case letters, digits, single hyphens"),
    (with_poll(interval=0), "poll all: its interval is 0 s"),
    (with_poll(interval=float("nan")), "poll all: its interval is nan s"),
    (with_poll(deadline=-1), "poll all: its deadline is -1 s"),
    (with_poll(request=Command(())), "poll all: its command lines must not be empty, nor have empty words"),
    (with_poll(request=Command((("acme-smi", ""),))), "poll all: its command lines must not be empty, nor have empty words"),
    (with_poll(request=Command((("/opt/acme-smi",),))), "poll all: its tool must be named without a path; folders is for the places to look in"),
    (with_poll(request=Command((("acme-smi",),), folders=("opt",))), "poll all: its folders must be given from the root"),
    (with_poll(request=Command((("acme-smi",),), per="card")), "poll all: it is repeated per card, but a command line has no {card}"),
    (with_poll(request=Files()), "poll all: its files must be given by paths from the root"),
    (with_poll(request=Files(globs=("sys/*",))), "poll all: its files must be given by paths from the root"),
    (with_poll(request=Library("", ("x",))), "poll all: it must name a library reader and calls"),
    (with_poll(request=Library("acme")), "poll all: it must name a library reader and calls"),
)  # fmt: skip


@pytest.mark.parametrize(("parser", "text"), BROKEN, ids=[row[1][:60] for row in BROKEN])
def test_a_broken_rule_is_named(parser: DescribedParser, text: str) -> None:
    assert violations(parser) == (text,)


def test_every_violation_is_told_at_once() -> None:
    broken = replace(GOOD, name="X", vendor="Y", gives=(), metrics=(), polls=())
    assert len(violations(broken)) == 4


def test_the_catalogues_metric_cannot_be_declared_again() -> None:
    taken = replace(BY_KEY["power_watts"], core=False)
    found = violations(replace(GOOD, metrics=(taken,), gives=("power_watts",)))
    assert "metric accelerator_power_watts: the catalogue has a metric of that name" in found


def test_a_parser_has_the_rows_that_it_gives() -> None:
    assert rows(GOOD) == {"power_watts": BY_KEY["power_watts"], "acme_voltage_ratio": METRIC}
