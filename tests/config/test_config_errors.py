"""Each error of a file is one line: file, line number, full path, problem and remedy."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from config.workbench import Workbench
from telemetry_daemon.config.file import load
from telemetry_daemon.config.inputs import ConfigError, ConfigInputs
from telemetry_parsers.model import Library, Poll

WORDS = "must be one of"
FLOPS = 'peaks."MTT S5000".flops = { bf16 = 480000000000000.0, fp8 = 960000000000000.0 }'
SECTION, NAMES = "must be a section with settings, as in", "must be a section with an entry for each name, as in"
COUNTS = "must be a count for each vendor: { nvidia = 8, hygon = 4 } in the file, nvidia=8,hygon=4 in a variable"
ADDRESS_FORMS = "write HOST:PORT, :PORT, [IPV6]:PORT or unix:/PATH"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('[log]\nlevle = "info"', "telemetry.toml: line 2: log.levle: no such setting; did you mean log.level?"),
        ('\n[lgo]\nlevel = "info"', "telemetry.toml: line 2: lgo: no such section; did you mean log?"),
        ('level = "info"', "telemetry.toml: line 1: level: no such setting; did you mean log.level?"),
        ("[web]\nport = 1", ("telemetry.toml: line 2: web.port: no such setting; "
         "known: allowed_hosts, config_file, listen_address, telemetry_path")),
        ("[sources.nvml.polls.links]\nmod = 1",
         "telemetry.toml: line 2: sources.nvml.polls.links.mod: no such setting; did you mean sources.nvml.polls.links.mode?"),
        ("[log]\n\"a\\nb\" = 1",
         'telemetry.toml: line 1: log."a\\nb": no such setting; known: format, level'),
    ],
)  # fmt: skip
def test_unknown_key_gets_a_suggestion(bench: Workbench, text: str, complaint: str) -> None:
    assert bench.complaints(text) == [complaint]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('log.level = "loud"', f'log.level: {WORDS} debug, info, warning, error, not "loud"'),
        ('peaks."MTT S5000".flops = { bf61 = 1e14 }', 'peaks."MTT S5000".flops.bf61: must be one of fp64, fp32, tf32, bf16, fp16, fp8, fp6, fp4, int8, int4, not "bf61"'),
        ('peaks."MTT S5000".flops = { bf16 = 0 }', 'peaks."MTT S5000".flops.bf16: must be at least 1, not 0'),
        ('peaks."MTT S5000".flops = 1e14', f'peaks."MTT S5000".flops: {NAMES} {FLOPS}, not 100000000000000.0'),
        ('sources.enable = ["nvml"]', f'sources.enable: {SECTION} sources.mthreads-gmi.mode = "auto", not ["nvml"]'),
        ('sources.nvml = "never"', f'sources.nvml: {SECTION} sources.mthreads-gmi.mode = "auto", not the string "never"'),
        ('sources = ["nvml"]', f'sources: {NAMES} sources.mthreads-gmi.mode = "auto", not ["nvml"]'),
        ('sources.nvml.polls = ["ps"]', f'sources.nvml.polls: {NAMES} sources.mthreads-gmi.polls.processes.mode = "auto", not ["ps"]'),
        ("web = 3", f'web: {SECTION} web.listen_address = [":19820"], not 3'),
        ("[[export]]", f'export: {SECTION} export.textfile.path = "/var/lib/prometheus/node-exporter/telemetry.prom", not [{{}}]'),
        ("peaks = 1", f"peaks: {NAMES} {FLOPS}, not 1"),
        ("compat = true", f'compat: {NAMES} compat.dcgm-exporter.listen_address = [":9400"], not true'),
        ('log.level = "INFO"', f'log.level: {WORDS} debug, info, warning, error, not "INFO"; did you mean info?'),
        ('log.level = "warn"', f'log.level: {WORDS} debug, info, warning, error, not "warn"; did you mean warning?'),
        ('sources.nvml.interval = "15"', 'sources.nvml.interval: must be a number, not the string "15"'),
        ("sources.nvml.interval = true", "sources.nvml.interval: must be a number, not true"),
        ("sources.nvml.interval = 0.1", "sources.nvml.interval: must be at least 0.2, not 0.1"),
        ("sources.nvml.interval = 86401", "sources.nvml.interval: must be at most 86400, not 86401"),
        ("sources.nvml.deadline = 0", "sources.nvml.deadline: must be at least 0.1, not 0"),
        ("sources.nvml.deadline = 301", "sources.nvml.deadline: must be at most 300, not 301"),
        ('sources.nvml.wake_suspended = "true"',
         'sources.nvml.wake_suspended: must be true or false, not the string "true"'),
        ("sources.nvml.path = 3", "sources.nvml.path: must be a string in quotes, not 3"),
        ('sources.nvml.path = "bin/tool"',
         'sources.nvml.path: must be an absolute path, starting with /, not "bin/tool"'),
        ('state.runtime_directory = "/a\\nb"',
         'state.runtime_directory: must be a path without control characters, not "/a\\nb"'),
        ('parsers.paths = "/a"', 'parsers.paths: must be a list of strings, as in ["…", "…"], not the string "/a"'),
        ('web.telemetry_path = "metrics"',
         'web.telemetry_path: must start with / and consist of letters, digits, . _ ~ - and /, not "metrics"'),
        ('web.telemetry_path = "/a/../b"',
         'web.telemetry_path: "/a/../b" contains the path segment \'.\' or \'..\', which clients remove before they send a request'),
        *((f'web.telemetry_path = "{route}"',
           f"web.telemetry_path: {route} is the path of another page; choose a path such as /metrics")
          for route in ("/", "/healthz", "/readyz", "/api", "/api/v1/snapshot")),
        ("web.listen_address = []",
         "web.listen_address: must not be empty; remove the setting to use the default, not []"),
        ('web.listen_address = "19820"', f"web.listen_address: '19820' is not a listen address; {ADDRESS_FORMS}"),
        ('web.listen_address = ":70000"', "web.listen_address: :70000: the port must be at most 65535"),
        ('web.listen_address = "127.0.0.256:1"', 'web.listen_address: "127.0.0.256:1" has an invalid IP address'),
        ('web.listen_address = "my host:1"',
         'web.listen_address: "my host:1" has a host that is neither a name nor an IP address'),
        ('web.listen_address = "a\\nb:1"',
         'web.listen_address: must be an address without control characters, not "a\\nb:1"'),
        *((f'web.allowed_hosts = ["gpu7", "{host}"]',
           (f'web.allowed_hosts: "{host}" is not a host; write a name or an IP address without scheme, port and '
            'brackets. "*.example.com" allows all names in a domain, "*" allows all names'))
          for host in ("gpu7:19820", "[::1]", "", "*gpu7", "*.", "gpu*", "10.0.0.256", "*.10.0.0.7")),
        ("expect.devices = 8", f"expect.devices: {COUNTS}, not 8"),
        ('export.textfile.path = "/a/telemetry.txt"',
         'export.textfile.path: "/a/telemetry.txt" does not end in .prom; the collector ignores other files'),
        ("[sources.NVML]",
         "sources.NVML: the name of a source consists of lower-case letters, digits and hyphens, as in mthreads-gmi"),
    ],
)  # fmt: skip
def test_a_bad_value_is_named_with_its_remedy(bench: Workbench, text: str, complaint: str) -> None:
    assert bench.complaints(text) == [f"telemetry.toml: line 1: {complaint}"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[log]\n# level\nlevel = 1", 3),
        ("\nlog = { format = 'text', level = 1 }", 2),
        ("log.format = 'text'\nlog.level = 1", 2),
        ('["log"]\n"level" = 1', 2),
    ],
)
def test_the_line_is_found_however_the_setting_is_written(bench: Workbench, text: str, line: int) -> None:
    (complaint,) = bench.complaints(text)
    assert complaint.startswith(f"telemetry.toml: line {line}: log.level: ")


def test_errors_come_in_the_order_of_their_lines_and_many_or_long_ones_are_cut_short(bench: Workbench) -> None:
    lines = bench.complaints("".join(f'"k{number}{"x" * 500}" = 1\n' for number in range(70)))
    assert (len(lines), lines[-1]) == (51, "and 20 more errors")
    assert [line.split(":")[1] for line in lines[:50]] == [f" line {number}" for number in range(1, 51)]
    (complaint,) = bench.complaints(f'[log]\nlevel = "{"x" * 5000}"')
    assert len(complaint) < 200


def test_long_list_of_known_names_is_left_out_of_the_error(bench: Workbench) -> None:
    many = tuple(f"tool-{number}" for number in range(21))
    assert bench.complaints("[sources.xyz]", known_sources=many) == [
        "telemetry.toml: line 1: sources.xyz: no such source"
    ]
    assert bench.complaints("[sources.tool-200]", known_sources=many)[0].endswith("did you mean tool-20 or tool-2?")


# With many key parts the TOML parser would need gigabytes.
ENDLESS_KEY = b".".join([b"a", b"'b.c'", b'"\\"d"'] * 17_000) + b" = 1\n"
COLUMN = "is not valid TOML at column"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"[log]\nlevel = debug\n", f": line 2 {COLUMN} 9: this is not a value; strings need quotes"),
        (b"a = 1\na = 2\n", f": line 2 {COLUMN} 6: this setting appears twice; keep one"),
        (b"[log]\n[log]\n", f": line 2 {COLUMN} 5: this section appears twice; put its settings under one"),
        (b"\xff\xfe[\0l\0o\0g\0]\0", " is binary or UTF-16, not a TOML file; save it as UTF-8 text"),
        ("[log]\n# größer\n".encode("latin-1"), ": line 2 is not valid UTF-8; save the file as UTF-8 text"),
        (b"\xef\xbb\xbf[log]\n", ": line 1 begins with a byte order mark; save the file as UTF-8 without this mark"),
        pytest.param(b"a = " + b"[" * 100_000, "", id="deep"),
        pytest.param(ENDLESS_KEY, " is not valid TOML: a key has more than 64 parts", id="a key of many parts"),
        pytest.param(
            b"[" + ENDLESS_KEY.split(b" ")[0] + b"]", " is not valid TOML: a key has", id="a section of many parts"
        ),
        pytest.param(b"a = " + b"9" * 5000, "", id="a huge number"),
        pytest.param(b"#" * (1 << 20) + b"\n", ": cannot be read: it is larger than 1 MiB", id="a huge file"),
    ],
)
def test_a_file_that_is_no_toml_is_refused_in_one_line(bench: Workbench, content: bytes, complaint: str) -> None:
    (line,) = bench.complaints(content)
    assert line.startswith(f"telemetry.toml{complaint}")


@pytest.mark.parametrize(
    ("plant", "complaint"),
    [
        (Path.mkdir, "it is a folder; name the file in it"),
        (os.mkfifo, "it is a pipe, not a regular file"),  # opening it would block
        (lambda path: path.symlink_to(path), "Too many levels of symbolic links"),
    ],
)
def test_irregular_file_is_refused(bench: Workbench, plant: Callable[[Path], object], complaint: str) -> None:
    plant(bench.file)
    assert bench.complaints() == [f"telemetry.toml: cannot be read: {complaint}"]


def test_a_file_without_permission_is_an_error_and_not_the_defaults(bench: Workbench) -> None:
    # Root may read everything but this write-only switch of the kernel.
    bench.file.symlink_to("/proc/sys/vm/drop_caches")
    remedy = f"permission denied for user id {os.geteuid()}; make the file readable for this user"
    assert bench.complaints() == [f"telemetry.toml: cannot be read: {remedy}"]


@pytest.mark.parametrize("path", ["a\0b", "a\nb", "caf\udce9"])
def test_an_odd_path_still_gives_one_line(path: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(ConfigInputs(path=path))
    assert str(caught.value).isprintable()
    assert str(caught.value).encode()


def test_a_poll_is_checked_once_its_parser_is_loaded(bench: Workbench) -> None:
    text = '[sources.nvml.polls.link]\nmode = "never"\n'
    assert bench.settings(text).sources["nvml"].disabled_reason(Poll("link", Library("nvml")))
    assert bench.complaints(text, known_polls={"nvml": ("fast", "links")}) == [
        "telemetry.toml: line 1: sources.nvml.polls.link: no such poll; did you mean links?"
    ]


def test_unknown_names_are_reported_beside_other_errors(bench: Workbench) -> None:
    text = "[sources.nvmll]\n[sources.nvml.polls.reading]\n[web]\nlisten_adress = 1\n[expect]\ndevices = 8\n"
    known_names = {"known_sources": ("nvml",), "known_polls": {"nvml": ("readings",)}}
    complaints = "\n".join(bench.complaints(text, **known_names))
    for expected in ("sources.nvmll: no such source", "web.listen_adress", "nvml.polls.reading: no such poll; did you"):
        assert expected in complaints


def test_folders_of_parsers_may_bring_sources_that_are_checked_once_they_are_loaded(bench: Workbench) -> None:
    text = '[parsers]\npaths = ["/p"]\n[sources.cnmon]\nmode = "always"\n'
    for sources in (None, ("host", "cnmon")):
        assert dict(bench.settings(text, known_sources=sources).sources)["cnmon"].mode == "always"
    assert bench.complaints(text, known_sources=("host", "cnmonitor")) == [
        "telemetry.toml: line 3: sources.cnmon: no such source; did you mean cnmonitor?"
    ]
