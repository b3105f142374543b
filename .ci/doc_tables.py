"""Tables of the documentation that are generated from tables of the product."""

from __future__ import annotations

from peak_sources import SOURCES

from telemetry_daemon.commands.check import THRESHOLD_NAMES
from telemetry_daemon.config.table import (
    NO_DEFAULT,
    SectionRow,
    SettingRow,
    limits_sentence,
    sections,
    toml_key,
    toml_value,
)
from telemetry_exporters.judgement.thresholds import THRESHOLDS
from telemetry_exporters.judgement.verdict import CONDITIONS, Condition
from telemetry_parsers.card_peaks import ROWS, Model

_SIXTEEN_BITS = ("bf16", "fp16")


def thresholds_table() -> str:
    """Return the table of docs/check.md: the values that `telemetry check --thresholds` accepts."""
    rows = (f"| `{name}` | {THRESHOLDS[name].value:,} | {THRESHOLDS[name].meaning} |" for name in THRESHOLD_NAMES)
    return "\n".join(("| threshold | default | meaning |", "|---|---|---|", *rows)) + "\n"


def conditions_table() -> str:
    """Return the table of docs/outputs.md: the conditions of a device, worst first."""
    rows = "\n".join(map(_condition_row, CONDITIONS))
    return f"| condition | severity | means | what to do | alert |\n| --- | --- | --- | --- | --- |\n{rows}\n"


def _condition_row(condition: Condition) -> str:
    alert = f"[{condition.alert}](alerts.md#{condition.alert.lower()})" if condition.alert else ""
    remedy = condition.remedy.replace("{id}", "ID")
    return f"| `{condition.example}` | {condition.severity.value} | {condition.meaning} | {remedy} | {alert} |"


def peaks_table() -> str:
    """Return the tables of docs/peaks.md: the models with their peaks, and the sources of the peaks."""
    source_numbers = {source: number for number, source in enumerate(SOURCES, 1)}
    head = "| model | 16 bits, TFLOP/s | others, TFLOP/s | units × clock | memory, GB/s | sources |\n| --- | --- | --- | --- | --- | --- |"
    rows = "\n".join(_peaks_row(row, source_numbers) for row in ROWS)
    sources = "\n".join(f"{number}. {_source_link(SOURCES[source])}" for source, number in source_numbers.items())
    return f"{head}\n{rows}\n\n{sources}\n"


def _peaks_row(row: Model, source_numbers: dict[str, int]) -> str:
    names = ", ".join(f"`{name}`" for name in row.names) + "".join(f", PCI `{pci_id}`" for pci_id in row.pci_ids)
    sixteen_bit = ", ".join(f"{dtype} {quote.teraflops:g}" for dtype, quote in row.quoted if dtype in _SIXTEEN_BITS)
    others = ", ".join(f"{dtype} {quote.teraflops:g}" for dtype, quote in row.quoted if dtype not in _SIXTEEN_BITS)
    clocks = " and ".join(dict.fromkeys(f"{quote.megahertz}" for _, quote in row.quoted))
    memory = "" if row.memory_gigabytes_per_second is None else f"{row.memory_gigabytes_per_second:g}"
    sources = ", ".join(str(source_numbers[source]) for source in row.sources)
    return f"| {names} | {sixteen_bit} | {others} | {row.units} × {clocks} MHz | {memory} | {sources} |"


def _source_link(source: str) -> str:
    address, _, section = source.partition(" ")
    return f"<{address}>{f' {section}' if section else ''}"


def settings_tables() -> str:
    """Return the tables of docs/configuration.md: the settings of each section of the configuration file."""
    return "\n".join(_settings_section(section) for section in sections())


def _settings_section(section: SectionRow) -> str:
    title, description = f"`[{toml_key(section.path)}]`", section.description
    if not section.path:
        title, description = "Above all sections", "In TOML, these settings must come before the first heading."
    lines = [f"### {title}", "", description, ""]
    lines += ["| setting | default | what it does |", "| --- | --- | --- |"]
    lines += [_setting_row(row) for row in section.settings]
    return "\n".join(lines) + "\n"


def _setting_row(row: SettingRow) -> str:
    default = NO_DEFAULT.get(row.path[0], "none") if row.default is None else f"`{toml_value(row.default)}`"
    alternatives = f"Variable `{row.variable}`" + (f", flag `{row.flag}`." if row.flag else ".") if row.variable else ""
    example = f"Example: `{toml_value(row.example)}`." if row.example is not None else ""
    text = " ".join(filter(None, (row.description, limits_sentence(row), example, alternatives)))
    return f"| `{row.path[-1]}` | {default} | {text} |"
