"""Texts that are generated from the models: the default file, the current settings, the reference."""

import re
from pathlib import Path

import pytest

from config.workbench import FULL, Workbench
from telemetry_daemon.config.optional_sections import CompatSettings, PeakSettings
from telemetry_daemon.config.settings import Settings
from telemetry_daemon.config.table import default_toml, effective_toml, settings_rows, toml_value
from telemetry_parsers.card_peaks import peak_of

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"


def test_the_default_file_with_every_setting_uncommented_is_valid_and_changes_nothing(bench: Workbench) -> None:
    text = re.sub(r"^# ", "", default_toml(), flags=re.MULTILINE)
    names = re.findall(r"^([^#\n]+) = ", text, re.MULTILINE)
    assert len(names) == len(set(names))
    # A model's section without numbers, like the example, declares its peak as unknown.
    mentioned = {"peaks": {"MTT S5000": PeakSettings()}, "compat": {"dcgm-exporter": CompatSettings()}}
    assert bench.settings(text) == Settings(**mentioned)
    assert bench.settings(default_toml()) == Settings()
    assert all(row.default is None or row.dotted_path in names for row in settings_rows() if row.dotted_path.islower())
    assert peak_of("MTT S5000") is None


def test_the_default_files_examples_are_valid(bench: Workbench) -> None:
    for row in settings_rows():
        if row.example is not None:
            path = (
                ".".join(row.path).replace("NAME", "nvml").replace("POLL", "links").replace("EXPORTER", "dcgm-exporter")
            )
            assert bench.settings(f"{path} = {toml_value(row.example)}\n") != Settings(), row.dotted_path


@pytest.mark.parametrize("settings", [Settings(), FULL])
def test_printed_settings_load_to_the_same_settings(bench: Workbench, settings: Settings) -> None:
    assert bench.settings(effective_toml(settings)) == settings


def test_printed_settings_name_flags_and_variables_that_set_them(bench: Workbench) -> None:
    environment = {"TELEMETRY_SOURCES_NVML_MODE": "never", "TELEMETRY_EXPECT_DEVICES": "amd=4"}
    loaded = bench.loaded('[log]\nlevel = "error"\n', environment, {"log.format": "json"})
    text = effective_toml(loaded.settings, loaded.origins)
    assert '\nformat = "json"  # flag --log.format\n' in text
    assert '\nmode = "never"  # environment variable TELEMETRY_SOURCES_NVML_MODE\n' in text
    assert "\ndevices = { amd = 4 }  # environment variable TELEMETRY_EXPECT_DEVICES\n" in text
    assert '\nlevel = "error"\n' in text
    assert text.count("#") == 3
    assert bench.settings(text) == loaded.settings


def test_the_reference_has_every_setting_with_its_variable_and_flag() -> None:
    text = REFERENCE.read_text("utf-8").partition("```toml")[0]
    for row in settings_rows():
        where = f"Variable `{row.variable}`" if row.variable else f"| `{row.path[-1]}` | "
        # More than one section has a listen address.
        line = next(line for line in text.splitlines() if where in line and row.description[:40] in line)
        assert line.startswith(f"| `{row.path[-1]}` | ")
        assert row.flag in line
        assert line.count("|") == 4


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ('a"b\\c\n\t\x7f\U0001f600', '"a\\"b\\\\c\\n\\t\\u007f\U0001f600"'),
        ((), "[]"),
        (["a", "b"], '["a", "b"]'),
        ({"nvidia": 8, "a b": 1}, '{ nvidia = 8, "a b" = 1 }'),
    ],
)
def test_values_are_written_as_toml(value: object, text: str) -> None:
    assert toml_value(value) == text
