"""The key of owners' hashes: created once, for the service's user alone; a configured key replaces it."""

import logging
import os
import stat

import pytest

from telemetry_daemon.config.inputs import ConfigError
from telemetry_daemon.state.attribution import KEY_FILE_NAME, load_hash_key


def test_key_is_created_once_and_private(tmp_path):
    folder = tmp_path / "state"
    key = load_hash_key("", str(folder))
    assert len(key) >= 32
    assert load_hash_key("", str(folder)) == key
    assert stat.S_IMODE((folder / KEY_FILE_NAME).stat().st_mode) == 0o600
    assert load_hash_key("", str(tmp_path / "another")) != key


def test_key_without_a_state_directory_is_new_each_time():
    assert load_hash_key("", None) != load_hash_key("", None)


SPOILT = {
    "link": lambda path: path.symlink_to("/etc/hostname"),
    "pipe": os.mkfifo,
    "folder": os.mkdir,
    "large": lambda path: path.write_bytes(b"x" * 5000),
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_key_that_cannot_be_saved_is_reported(tmp_path, caplog, spoil):
    spoil(tmp_path / KEY_FILE_NAME)
    with caplog.at_level(logging.WARNING):
        assert len(load_hash_key("", str(tmp_path))) == 32
    assert [record.message for record in caplog.records] == [
        "the hash key cannot be saved: the hashes will change at the next start"
    ]


@pytest.mark.parametrize("content", [b"", b"short"])
def test_truncated_key_is_replaced(tmp_path, content):
    (tmp_path / KEY_FILE_NAME).write_bytes(content)
    key = load_hash_key("", str(tmp_path))
    assert (tmp_path / KEY_FILE_NAME).read_bytes() == key


def test_configured_key_is_used(tmp_path):
    file = tmp_path / "cluster.key"
    file.write_text("0123456789abcdef0123456789abcdef\n")
    assert load_hash_key(str(file), str(tmp_path / "state")) == b"0123456789abcdef0123456789abcdef"
    assert [path.name for path in tmp_path.iterdir()] == ["cluster.key"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "No such file"),
        (b"short\n", "fewer than 16 bytes"),
        (b"x" * 5000, "larger than 4 KiB"),
    ],
)
def test_invalid_configured_key_stops_the_start(tmp_path, content, why):
    file = tmp_path / "cluster.key"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError) as failure:
        load_hash_key(str(file), str(tmp_path))
    (line,) = failure.value.lines
    assert line.startswith(f"attribution.hash_key_file {file}")
    assert why in line
