"""A parser's declaration is checked by rules that name each violation."""

from dataclasses import replace
from typing import Any

import pytest

from telemetry_parsers.checks.declaration import metrics_by_key, violations
from telemetry_parsers.codec.captures import DescribedParser
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


@pytest.mark.parametrize(
    "parser",
    [
        GOOD,
        with_metric(name="accelerator_acme_resets_total", kind="counter", unit=""),
        with_metric(name="accelerator_acme_idle_seconds_total", kind="counter", unit="seconds"),
        with_metric(label="rail", words=("core", "io_1")),
        with_poll(request=Files(globs=("/sys/class/acme/*/temp",))),
        with_poll(request=Library("acme", ("power",))),
        with_poll(request=Command((("acme-smi", "-i", "{device}"),), per="device", folders=("/opt/acme",))),
        replace(GOOD, vendor="", gives=("telemetry_host_load1",), metrics=()),
    ],
)
def test_allowed_declarations(parser: DescribedParser) -> None:
    assert violations(parser) == ()


NAME = "must consist of at most 40 lower-case letters, digits and single hyphens"
NOBODYS = "which is not in the catalogue or in the parser's metrics"
PREFIX = "the name must begin with accelerator_acme_, followed by lower-case letters, digits or underscores"
UNITS = "its unit must be a base unit (bytes celsius hertz joules ratio seconds volts watts), and its name must end with the unit"
KIND = "it must be a gauge or counter of scope `device`, and not a core metric"
RANGE = "it needs a help text of one line, and `low` must be less than `high`"
RATIO = "metric accelerator_acme_voltage_ratio"
BROKEN: tuple[tuple[DescribedParser, str], ...] = (
    (replace(GOOD, contract_version=2), "contract_version is 2, but this release supports version 1"),
    (replace(GOOD, name="Acme SMI"), f"name 'Acme SMI' {NAME}"),
    (replace(GOOD, name="a" * 41), f"name '{'a' * 41}' {NAME}"),
    (replace(GOOD, vendor="acme-corp", gives=("power_watts",), metrics=()), "vendor 'acme-corp' must consist of lower-case letters and digits"),
    (replace(GOOD, gives=(), metrics=()), "`gives` is empty"),
    (replace(GOOD, gives=("power_watts",) * 2, metrics=()), "`gives` contains a metric twice: power_watts"),
    (replace(GOOD, gives=("up",), metrics=()), "`gives` contains up, which the daemon derives"),
    (replace(GOOD, gives=("power",), metrics=()), f"`gives` contains power, {NOBODYS}"),
    (replace(GOOD, gives=("power_watts",)), "`gives` does not contain the parser's own metric acme_voltage_ratio"),
    (with_metric(name="accelerator_other_voltage_ratio"), f"metric accelerator_other_voltage_ratio: {PREFIX}"),
    (with_metric(name="accelerator_acme_Voltage_ratio"), f"metric accelerator_acme_Voltage_ratio: {PREFIX}"),
    (with_metric(name="accelerator_acme_resets", kind="counter", unit=""), "metric accelerator_acme_resets: the names of counters must end in _total, and other names must not"),
    (with_metric(name="accelerator_acme_resets_total", unit=""), "metric accelerator_acme_resets_total: the names of counters must end in _total, and other names must not"),
    (with_metric(name="accelerator_acme_voltage_millivolts", unit="millivolts"), f"metric accelerator_acme_voltage_millivolts: {UNITS}"),
    (with_metric(unit="watts"), f"{RATIO}: {UNITS}"),
    (with_metric(kind="info"), f"{RATIO}: {KIND}"),
    (with_metric(scope="host"), f"{RATIO}: {KIND}"),
    (with_metric(help=" "), f"{RATIO}: {RANGE}"),
    (with_metric(low=2), f"{RATIO}: {RANGE}"),
    (with_metric(label="device"), f"{RATIO}: its label 'device' is reserved, or is not a lower-case word"),
    (with_metric(words=("a",)), f"{RATIO}: it has `words`, but no label"),
    (with_metric(label="rail", words=("a b",)), f"{RATIO}: the word 'a b' may contain only lower-case letters, digits and underscores"),
    (replace(GOOD, polls=()), "needs at least one poll, and poll names must be unique"),
    (replace(GOOD, polls=GOOD.polls * 2), "needs at least one poll, and poll names must be unique"),
    (with_poll(lists_devices=False), "has no poll that lists devices"),
    (with_poll(name="all of it"), "poll all of it: the name may contain only lower-case letters, digits and single hyphens"),
    (with_poll(tier="daily"), "poll all: tier 'daily' must be one of fast slow inventory"),
    (with_poll(interval=0), "poll all: interval 0 is not a valid time"),
    (with_poll(deadline=-1), "poll all: deadline -1 is not a valid time"),
    (with_poll(request="acme-smi"), "poll all: its request is str, not Command, Files or Library"),
    (with_poll(request=Command(())), "poll all: needs at least one command line, and no word may be empty"),
    (with_poll(request=Command((("acme-smi", ""),))), "poll all: needs at least one command line, and no word may be empty"),
    (with_poll(request=Command((("/opt/acme-smi",),))), "poll all: the tool must not be a path; use `folders` instead"),
    (with_poll(request=Command((("acme-smi",),), folders=("opt",))), "poll all: its folders must be absolute"),
    (with_poll(request=Command((("acme-smi",),), per="card")), "poll all: is repeated per card, but one of its command lines does not contain {card}"),
    (with_poll(request=Files()), "poll all: needs at least one path, and all paths must be absolute"),
    (with_poll(request=Library("acme")), "poll all: needs a reader and at least one call"),
)  # fmt: skip


@pytest.mark.parametrize(("parser", "text"), BROKEN, ids=[row[1][:60] for row in BROKEN])
def test_broken_rule_is_named(parser: DescribedParser, text: str) -> None:
    assert violations(parser) == (text,)


def test_all_violations_are_reported() -> None:
    broken = replace(GOOD, name="X", vendor="Y", gives=(), metrics=(), polls=())
    assert len(violations(broken)) == 4


def test_catalogue_metric_cannot_be_redeclared() -> None:
    redeclared = replace(BY_KEY["power_watts"], core=False)
    found = violations(replace(GOOD, metrics=(redeclared,), gives=("power_watts",)))
    assert "metric accelerator_power_watts: the catalogue already has a metric of this name" in found


def test_metrics_of_a_parser_by_key() -> None:
    assert metrics_by_key(GOOD) == {"power_watts": BY_KEY["power_watts"], "acme_voltage_ratio": METRIC}
