"""Options that all tests share."""

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest

pytest_plugins = ("kits.pytest_levels", "kits.pytest_limits")

# The settings in the caller's shell and make must not reach the tests and their child processes.
_OF_THE_CALLER = re.compile(
    "MAKE(FLAGS|LEVEL|OVERRIDES|FILES)|MFLAGS|ARGS|BASH_ENV|ENV|CDPATH|COLUMNS|LINES|NO_COLOR|(CLICOLOR_)?FORCE(_COLOR)?"
    "|LC_.*|LANG|LANGUAGE|PYTHON(PATH|HOME|WARNINGS|OPTIMIZE|DONTWRITEBYTECODE)|(http|all)_proxy|(HTTP|ALL)_PROXY"
    "|TELEMETRY_(?!TEST_|SHARED$).*"
)
for _name in filter(_OF_THE_CALLER.fullmatch, list(os.environ)):
    del os.environ[_name]
os.environ["LC_ALL"] = "C.UTF-8"
os.umask(0o022)
# Background jobs of a script ignore Ctrl-C, and all processes of the tests would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Packages may need an https proxy; the servers of the tests must not be reached through it.
for _name in ("no_proxy", "NO_PROXY"):
    os.environ[_name] = ",".join(filter(None, ("127.0.0.1", "::1", "localhost", os.environ.get(_name))))


def pytest_configure(config: pytest.Config) -> None:
    """Use fixed Hypothesis examples, so that checks do not depend on luck; only runs of long tests draw new ones."""
    only_long = config.getoption("--level") == ["long"]
    hypothesis.settings.register_profile(
        "ours",
        max_examples=100 if only_long else 50,
        deadline=None,  # the time of an example depends on how busy the machine is
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
        derandomize=not only_long,
    )
    hypothesis.settings.load_profile("ours")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        default=False,
        help="write the golden files from the current results; read them before you commit them",
    )


@pytest.fixture
def assert_golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Compare a text with its golden file, or write the file if --update-golden is given."""

    def check(file: Path, text: str) -> None:
        if request.config.getoption("--update-golden"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        assert file.is_file(), f"no golden file {file}: tests/captures/README.md says how one is made"
        assert file.read_text(encoding="utf-8") == text

    return check
