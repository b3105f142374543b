"""Flags beat the environment, the environment beats the file, the file beats the defaults; every value arrives."""

from pathlib import Path

import pytest

from config.workbench import FULL, FULL_FILE, Workbench
from telemetry_daemon.config.file import load
from telemetry_daemon.config.inputs import ConfigError, ConfigInputs
from telemetry_daemon.config.settings import (
    ExpectSettings,
    ExportSettings,
    ParsersSettings,
    PollSettings,
    Settings,
    SourceSettings,
    TextfileSettings,
    WebSettings,
)
from telemetry_daemon.config.table import settings_rows

FILE = '[log]\nlevel = "warning"\n[sources.nvml]\nmode = "always"\ninterval = 9\n'


@pytest.mark.parametrize(
    ("text", "environment", "overrides", "level"),
    [
        (None, {}, {}, "info"),
        (FILE, {}, {}, "warning"),
        (FILE, {"TELEMETRY_LOG_LEVEL": "error"}, {}, "error"),
        (FILE, {"TELEMETRY_LOG_LEVEL": "error"}, {"log.level": "debug"}, "debug"),
        (None, {"TELEMETRY_LOG_LEVEL": "error"}, {}, "error"),
        (FILE, {"TELEMETRY_LOG_LEVEL": ""}, {}, "warning"),
        (FILE, {"LOG_LEVEL": "error", "telemetry_log_level": "error"}, {}, "warning"),
    ],
)
def test_precedence_is_flag_variable_file_default(
    bench: Workbench, text: str | None, environment: dict[str, str], overrides: dict[str, object], level: str
) -> None:
    assert bench.settings(text, environment, overrides).log.level == level


@pytest.mark.parametrize(
    ("by_flag", "by_variable", "expected"),
    [("one", "two", "one"), (None, "two", "two"), (None, None, "default"), ("one", None, "one"), (None, "", "default")],
)
def test_file_is_chosen_by_flag_then_variable_then_default(
    tmp_path: Path, by_flag: str | None, by_variable: str | None, expected: str
) -> None:
    for name in ("one", "two", "default"):
        (tmp_path / name).write_text(f'[state]\ndirectory = "/{name}"\n')
    variable = by_variable and str(tmp_path / by_variable)
    inputs = ConfigInputs(
        path=by_flag and str(tmp_path / by_flag),
        environment={} if variable is None else {"TELEMETRY_CONFIG": variable},
        default_path=str(tmp_path / "default"),
    )
    assert load(inputs).state.directory == f"/{expected}"
    if expected != "default":
        (tmp_path / expected).unlink()
        with pytest.raises(ConfigError, match=f"{expected}: no such file; `telemetry config default` prints") as caught:
            load(inputs)
        assert caught.value.status == 78


@pytest.mark.parametrize(
    ("variable", "text", "expected"),
    [
        ("TELEMETRY_WEB_LISTEN_ADDRESS", ":1, [::1]:2", Settings(web=WebSettings((":1", "[::1]:2")))),
        ("TELEMETRY_PARSERS_PATHS", "/a,/b", Settings(parsers=ParsersSettings(("/a", "/b")))),
        ("TELEMETRY_EXPECT_DEVICES", "nvidia=8, hygon = 4", Settings(expect=ExpectSettings({"hygon": 4, "nvidia": 8}))),
        ("TELEMETRY_EXPORT_TEXTFILE_PATH", "/t.prom", Settings(export=ExportSettings(TextfileSettings("/t.prom")))),
        ("TELEMETRY_EXPORT_TEXTFILE_INTERVAL", "2.5", Settings(export=ExportSettings(TextfileSettings(interval=2.5)))),
        ("TELEMETRY_SOURCES_HY_SMI_POLLS_NET_HEALTH_MODE", "never",
         Settings(sources={"hy-smi": SourceSettings(polls={"net-health": PollSettings("never")})})),
        ("TELEMETRY_SOURCES_HY_SMI_INTERVAL", "30", Settings(sources={"hy-smi": SourceSettings(interval=30.0)})),
        ("TELEMETRY_SOURCES_MTHREADS_GMI_WAKE_SUSPENDED", "true",
         Settings(sources={"mthreads-gmi": SourceSettings(wake_suspended=True)})),
    ],
)  # fmt: skip
def test_variable_sets_the_setting_of_its_name(bench: Workbench, variable: str, text: str, expected: Settings) -> None:
    assert bench.settings(environment={variable: text}) == expected


@pytest.mark.parametrize(
    ("variable", "text", "complaint"),
    [
        ("TELEMETRY_LOG_LEVLE", "info", "no such setting; did you mean TELEMETRY_LOG_LEVEL?"),
        ("TELEMETRY_OPTOUT", "1", "no such setting; unset it for this program"),
        ("TELEMETRY_EXPORT_TEXTFILE_INTERVAL", "1e3", 'export.textfile.interval: must be a number, not the string "1e3"'),
        *(("TELEMETRY_EXPECT_DEVICES", text,
           ("expect.devices: must be a count for each vendor: { nvidia = 8, hygon = 4 } in the file, "
            f'nvidia=8,hygon=4 in a variable, not "{text}"')) for text in ("nvidia:8", "amd=1,amd=2")),
        ("TELEMETRY_EXPECT_DEVICES", "amd=" + "9" * 30,
         f'expect.devices.amd: must be a whole number, not the string "{"9" * 30}"'),
        ("TELEMETRY_WEB_LISTEN_ADDRESS", ",",
         "web.listen_address: must not be empty; remove the setting to use the default, not []"),
        ("TELEMETRY_SOURCES_A__B_MODE", "never",
         "sources.a--b: the name of a source consists of lower-case letters, digits and hyphens, as in mthreads-gmi"),
        ("TELEMETRY_SOURCES_MODE", "never", "no such setting; did you mean TELEMETRY_SOURCES_NAME_MODE?"),
        ("TELEMETRY_STATE_DIRECTORY", "caf\udce9", ("state.directory: must be an absolute path, starting with /, "
         'not "caf\\udce9"')),
        ("TELEMETRY_LOG_FORMAT", "\udcff", 'log.format: must be a string of valid UTF-8, not the string "\\udcff"'),
    ],
)  # fmt: skip
def test_a_bad_variable_is_named(bench: Workbench, variable: str, text: str, complaint: str) -> None:
    assert bench.complaints(environment={variable: text}) == [f"environment variable {variable}: {complaint}"]


def test_a_variable_that_is_reserved_is_no_setting_and_no_error(bench: Workbench) -> None:
    reserved = {"TELEMETRY_SHARED": "/captures", "TELEMETRY_DEBUG": "1", "TELEMETRY_TEST_CLOCK": "1"}
    assert bench.settings(environment=reserved) == Settings()


def test_flags_take_texts_lists_and_relative_paths(
    bench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    overrides = {"web.listen_address": (":1", ":2"), "web.config_file": "web.yml", "export.textfile.interval": "5"}
    settings = bench.settings(overrides=overrides)
    assert settings.web.listen_address == (":1", ":2")
    assert settings.web.config_file == f"{tmp_path}/web.yml"
    assert settings.export.textfile.interval == 5.0


def test_empty_flag_resets_a_setting_of_the_file(bench: Workbench) -> None:
    settings = bench.settings('[web]\nconfig_file = "/w.yml"\n', overrides={"web.config_file": ""})
    assert settings.web.config_file == ""


@pytest.mark.parametrize(
    ("overrides", "complaint"),
    [
        ({"log.level": "loud"}, 'flag --log.level: log.level: must be one of debug, info, warning, error, not "loud"'),
        ({"web.config_file": 3}, "flag --web.config.file: web.config_file: must be a string in quotes, not 3"),
        ({"log.levle": "info"}, "flag log.levle: log.levle: no such setting; did you mean log.level?"),
    ],
)
def test_a_bad_flag_is_named(bench: Workbench, overrides: dict[str, object], complaint: str) -> None:
    assert bench.complaints(overrides=overrides) == [complaint]


def test_errors_of_the_file_and_of_the_environment_are_reported_together(bench: Workbench) -> None:
    environment = {"TELEMETRY_LOGLEVEL": "info", "TELEMETRY_LOG_FORMAT": "xml"}
    assert bench.complaints("[log]\nlevel = 1\n", environment) == [
        "environment variable TELEMETRY_LOGLEVEL: no such setting; did you mean TELEMETRY_LOG_LEVEL?",
        'environment variable TELEMETRY_LOG_FORMAT: log.format: must be one of text, json, not "xml"',
        "telemetry.toml: line 2: log.level: must be one of debug, info, warning, error, not 1",
    ]


def test_origins_name_the_variable_or_the_flag(bench: Workbench) -> None:
    loaded = bench.loaded(FILE, {"TELEMETRY_LOG_FORMAT": "json"}, {"log.level": "debug"})
    assert (loaded.file, Workbench(bench.folder / "none").loaded().file) == (str(bench.file), None)
    assert loaded.origins == {
        "log.format": "environment variable TELEMETRY_LOG_FORMAT",
        "log.level": "flag --log.level",
    }


def test_every_setting_has_a_variable_of_its_own(bench: Workbench) -> None:
    variables = [row.variable for row in settings_rows() if not {"MODEL", "EXPORTER"} & set(row.path)]
    assert len(variables) == len(set(variables))
    for variable in variables:
        name = variable.replace("NAME", "NVML")
        lines = bench.complaints(environment={name: "\x01,"})
        assert all(line.startswith(f"environment variable {name}: ") for line in lines), lines


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_every_setting_of_a_file_arrives(bench: Workbench, line_end: str) -> None:
    settings = bench.settings(FULL_FILE.replace("\n", line_end))
    assert settings == FULL
    assert isinstance(settings.source("nvml").interval, float), "whole seconds have the type of fractions"


@pytest.mark.parametrize("path", ["/m", "/node-1/gpu.metrics", "/apix"])
def test_the_path_of_the_page_may_be_chosen(bench: Workbench, path: str) -> None:
    web = bench.settings(f'[web]\ntelemetry_path = "{path}"\nallowed_hosts = "*"\n').web
    assert (web.telemetry_path, web.allowed_hosts) == (path, ("*",))


@pytest.mark.parametrize("text", [None, "", "# nothing\n", "[log]\n[web]\n[sources]\n[export.textfile]\n"])
def test_missing_setting_has_its_default(bench: Workbench, text: str | None) -> None:
    assert bench.settings(text) == Settings()


@pytest.mark.parametrize(
    "address",
    [
        ":19820",
        "127.0.0.1:0",
        "0.0.0.0:65535",
        "[fe80::1%eth0]:19820",
        "node-7.cluster.example:80",
        "unix:/run/telemetry/web.sock",
    ],
)
def test_single_address_needs_no_list(bench: Workbench, address: str) -> None:
    assert bench.settings(f'[web]\nlisten_address = "{address}"\n').web.listen_address == (address,)
