"""The tables of other exporters: every row reads metrics of the catalogue and is documented."""

import pytest

from kits.captures import ROOT
from telemetry_exporters.prometheus.compat import EXPORTERS, VERSIONS, dcgm, load_table, nvidia, others, rocm
from telemetry_exporters.prometheus.compat.doc import metric_matches
from telemetry_exporters.prometheus.compat.table import ExporterTable, Row
from telemetry_parsers.metrics import BY_KEY, BY_NAME
from telemetry_parsers.vendors import VENDORS

# The modules with tables.
MODULES = (dcgm, nvidia, others, rocm)


def rows() -> list[tuple[str, Row]]:
    return [(name, row) for name in EXPORTERS for row in load_table(name).rows]


def test_every_table_is_listed() -> None:
    tables = [found for module in MODULES for found in vars(module).values() if isinstance(found, ExporterTable)]
    listed = [(name, version) for name in EXPORTERS for version in VERSIONS.get(name, ("",))]
    assert sorted((table.name, table.version) for table in tables) == sorted(listed)
    served = [load_table(name, version) for name, version in listed]
    assert [(table.name, table.version) for table in served] == listed


@pytest.mark.parametrize("name", EXPORTERS)
def test_table_uses_known_vendors_and_metrics(name: str) -> None:
    table = load_table(name)
    assert set(table.vendors) <= {vendor.word for vendor in VENDORS}
    for row in table.rows:
        for reading in row.formula.readings:
            metric, brace, _ = reading.partition("{")
            assert metric in BY_KEY, row
            assert not brace or BY_KEY[metric].label or metric == "info", row
    for node_row in table.node_rows:
        assert not node_row.metric or node_row.metric in BY_NAME


def test_energy_is_never_estimated() -> None:
    readings_used = {reading for _, row in rows() for reading in row.formula.readings}
    assert not any("estimated" in reading for reading in readings_used)


@pytest.mark.parametrize(("name", "version"), [*((name, "") for name in EXPORTERS), ("dcgm-exporter", "4.9")])
def test_every_name_is_documented_once(name: str, version: str) -> None:
    table = load_table(name, version)
    documented = [line.name for line in metric_matches(table) if line.fit != "missing"]
    assert set(documented) == {table.prefix + row.name for row in (*table.rows, *table.node_rows)}
    text = (ROOT / "docs" / "compatibility.md").read_text()
    assert all(f"`{line.name}`" in text for line in metric_matches(table) if "|" not in line.name)
