"""The key of owners' hashes: created once, for the service's user alone; a configured key replaces it."""

import logging
import os
import stat

import pytest

from telemetry_daemon.config.inputs import ConfigError
from telemetry_daemon.state.attribution import NAME, owner_key


def test_a_key_is_made_once_and_for_its_owner_alone(tmp_path):
    folder = tmp_path / "state"
    key = owner_key("", str(folder))
    assert len(key) >= 32
    assert owner_key("", str(folder)) == key
    assert stat.S_IMODE((folder / NAME).stat().st_mode) == 0o600
    assert owner_key("", str(tmp_path / "another")) != key


def test_without_a_state_directory_each_time_another():
    assert owner_key("", None) != owner_key("", None)


@pytest.mark.parametrize("spoil", ["link", "pipe", "folder", "large"])
def test_a_key_that_cannot_be_kept_is_reported_and_made_again(tmp_path, caplog, spoil):
    path = tmp_path / NAME
    if spoil == "link":
        path.symlink_to("/etc/hostname")
    elif spoil == "pipe":
        os.mkfifo(path)
    elif spoil == "folder":
        path.mkdir()
    else:
        path.write_bytes(b"x" * 5000)
    with caplog.at_level(logging.WARNING):
        assert len(owner_key("", str(tmp_path))) == 32
    assert [record.message for record in caplog.records] == [
        "the hash key cannot be saved: the hashes will change at the next start"
    ]


@pytest.mark.parametrize("content", [b"", b"short"])
def test_a_key_of_ours_that_was_cut_off_is_replaced(tmp_path, content):
    (tmp_path / NAME).write_bytes(content)
    key = owner_key("", str(tmp_path))
    assert (tmp_path / NAME).read_bytes() == key


def test_the_operators_key_is_read_and_nothing_is_made(tmp_path):
    file = tmp_path / "cluster.key"
    file.write_text("0123456789abcdef0123456789abcdef\n")
    assert owner_key(str(file), str(tmp_path / "state")) == b"0123456789abcdef0123456789abcdef"
    assert [path.name for path in tmp_path.iterdir()] == ["cluster.key"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "No such file"),
        (b"short\n", "fewer than 16 bytes"),
        (b"x" * 5000, "larger than 4 KiB"),
    ],
)
def test_an_operators_key_that_is_none_stops_the_start(tmp_path, content, why):
    file = tmp_path / "cluster.key"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError) as failure:
        owner_key(str(file), str(tmp_path))
    (line,) = failure.value.lines
    assert line.startswith(f"attribution.hash_key_file {file}")
    assert why in line
