"""The reference in docs/configuration.md: every section of the configuration file as a table of its settings."""

from __future__ import annotations

from telemetry_daemon.config.table import NO_DEFAULT, SectionRow, SettingRow, dotted, limits, sections, toml_value


def reference_markdown() -> str:
    """Every section as a table of its settings."""
    return "\n".join(_section_markdown(section) for section in sections())


def _section_markdown(section: SectionRow) -> str:
    title, description = f"`[{dotted(section.path)}]`", section.description
    if not section.path:
        title, description = "Above all sections", "In TOML, these must stand before the first heading."
    lines = [f"### {title}", "", description, ""]
    lines += ["| setting | default | what it does |", "| --- | --- | --- |"]
    lines += [_row_markdown(row) for row in section.settings]
    return "\n".join(lines) + "\n"


def _row_markdown(row: SettingRow) -> str:
    default = NO_DEFAULT.get(row.path[0], "none") if row.default is None else f"`{toml_value(row.default)}`"
    ways = f"Variable `{row.variable}`" + (f", flag `{row.flag}`." if row.flag else ".") if row.variable else ""
    example = f"Example: `{toml_value(row.example)}`." if row.example is not None else ""
    text = " ".join(filter(None, (row.description, limits(row), example, ways)))
    return f"| `{row.path[-1]}` | {default} | {text} |"
