"""What an operator sees of a rank table: `config check` says what it holds or what is wrong with it."""

from __future__ import annotations

import pytest

from kits.captures import own_case
from kits.command_line import run_main
from kits.rank_tables import version_1, written


@pytest.fixture
def table(tmp_path):
    return tmp_path / "hccl.json"


def check(table, **more):
    environment = {"TELEMETRY_RANK_TABLE": str(table), "TELEMETRY_RANK_TABLE_SERVER": "10.0.0.1", **more}
    return run_main("config", "check", environment=environment)


def test_a_good_table_is_told(table):
    table.write_text(written(version_1()))
    status, out, errors = check(table)
    assert (status, out) == (0, "the configuration is valid\n")
    assert errors == f"telemetry: rank_table: {table}: version 1.0, 4 ranks on 2 servers, 2 here\n"


def test_a_table_that_is_not_there_yet_is_no_error(table):
    status, _, errors = check(table)
    assert (status, "no such file yet" in errors) == (0, True)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"status": "completed"  // yes\n}', "line 1: is not JSON: it has no comments"),
        (written(version_1(servers=1)), "none of the servers is rank_table_server 10.0.0.1: 10.0.0.0"),
    ],
)
def test_a_bad_table_is_an_error_of_the_configuration(table, text, told):
    table.write_text(text)
    status, out, errors = check(table)
    assert (status, out) == (78, "")
    assert f"rank_table: {table}: {told}" in errors


@pytest.mark.parametrize("name", ["hccn-tool", "hccn_tool"])
def test_a_source_goes_by_its_tools_own_spelling_too(tmp_path, name):
    body = own_case("hccn-tool", "link").path.read_text().split("# ---\n")[1]
    saved = tmp_path / "saved.txt"
    saved.write_text(body)
    status, out, _ = run_main("parse", name, str(saved))
    assert (status, '"link_up"' in out) == (2, True)
