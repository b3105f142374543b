"""What an operator sees of a rank table: `config check` says what it holds or what is wrong with it."""

from __future__ import annotations

import pytest

from kits.captures import own_case
from kits.command_line import run_main
from kits.rank_tables import version_1, written


@pytest.mark.parametrize(
    ("text", "status", "told"),
    [
        (written(version_1()), 0, "version 1.0, 4 ranks on 2 servers, 2 here\n"),
        (None, 0, "there is no such file yet"),
        ('{"status": "completed"  // yes\n}', 78, "line 1: is not JSON: it has no comments"),
        (written(version_1(servers=1)), 78, "none of the servers is rank_table_server 10.0.0.1: 10.0.0.0"),
    ],
)
def test_a_table_is_checked_with_the_configuration(tmp_path, text, status, told):
    table = tmp_path / "hccl.json"
    if text is not None:
        table.write_text(text)
    environment = {"TELEMETRY_RANK_TABLE": str(table), "TELEMETRY_RANK_TABLE_SERVER": "10.0.0.1"}
    ended, out, errors = run_main("config", "check", environment=environment)
    assert (ended, out) == (status, "" if status else "the configuration is valid\n")
    assert f"rank_table: {table}: {told}" in errors


@pytest.mark.parametrize("name", ["hccn-tool", "hccn_tool"])
def test_a_source_goes_by_its_tools_own_spelling_too(tmp_path, name):
    body = own_case("hccn-tool", "link").path.read_text().split("# ---\n")[1]
    saved = tmp_path / "saved.txt"
    saved.write_text(body)
    status, out, _ = run_main("parse", name, str(saved))
    assert (status, '"link_up"' in out) == (2, True)
