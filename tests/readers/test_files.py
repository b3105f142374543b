"""Reading files by pattern: a tree like sysfs, and files that must not be read."""

import base64
import errno
import os
import socket
from pathlib import Path

import pytest

from kits.files import read_files
from telemetry_daemon.processes.driver_files import FILE_LIMIT_BYTES, MATCH_LIMIT
from telemetry_parsers.model import Files, Output

CARDS = "/sys/class/drm/card[0-9]*"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a tree with two cards and a connector, as drm shows them."""
    for bus_id, busy in (("0000:03:00.0", "7\n"), ("0000:43:00.0", "98\n")):
        device = tmp_path / "sys/devices" / bus_id
        (device / "power").mkdir(parents=True)
        (device / "hwmon/hwmon3").mkdir(parents=True)
        (device / "gpu_busy_percent").write_text(busy)
        (device / "gpu_metrics").write_bytes(b"\x60\x00\x01\xff")
        (device / "power/runtime_status").write_text("active\n")
        (device / "hwmon/hwmon3/temp1_input").write_text("41000\n")
    drm = tmp_path / "sys/class/drm"
    for name, bus_id in (("card0", "0000:03:00.0"), ("card1", "0000:43:00.0")):
        (drm / name).mkdir(parents=True)
        (drm / name / "device").symlink_to(f"../../../devices/{bus_id}")
    return tmp_path


def ok(name: str, text: str) -> Output:
    return Output(name, text=text, status=0)


def test_texts_links_and_bytes_are_read_and_sorted(root: Path) -> None:
    request = Files(
        globs=(CARDS + "/device/hwmon/hwmon*/temp*_input", CARDS + "/device/gpu_busy_percent"),
        links=(CARDS + "/device",),
        binary=(CARDS + "/device/gpu_metrics",),
    )
    metrics = {"base64": base64.b64encode(b"\x60\x00\x01\xff").decode()}
    assert read_files(request, root) == (
        ok("/sys/class/drm/card0/device", "../../../devices/0000:03:00.0"),
        ok("/sys/class/drm/card0/device/gpu_busy_percent", "7\n"),
        Output("/sys/class/drm/card0/device/gpu_metrics", status=0, data=metrics),
        ok("/sys/class/drm/card0/device/hwmon/hwmon3/temp1_input", "41000\n"),
        ok("/sys/class/drm/card1/device", "../../../devices/0000:43:00.0"),
        ok("/sys/class/drm/card1/device/gpu_busy_percent", "98\n"),
        Output("/sys/class/drm/card1/device/gpu_metrics", status=0, data=metrics),
        ok("/sys/class/drm/card1/device/hwmon/hwmon3/temp1_input", "41000\n"),
    )


@pytest.mark.parametrize("status", ["suspended\n", " suspended ", "suspended"])
def test_folder_is_skipped_when_a_file_matches(root: Path, status: str) -> None:
    (root / "sys/devices/0000:03:00.0/power/runtime_status").write_text(status)
    request = Files(
        globs=(CARDS + "/device/hwmon/hwmon*/temp*_input", CARDS + "/device/power/runtime_status"),
        links=(CARDS + "/device",),
        binary=(CARDS + "/device/gpu_metrics",),
        skip_when=(("no/such/file", "x"), ("power/runtime_status", "suspended")),
    )
    assert [output.name for output in read_files(request, root)] == [
        "/sys/class/drm/card0/device",
        "/sys/class/drm/card1/device",
        "/sys/class/drm/card1/device/gpu_metrics",
        "/sys/class/drm/card1/device/hwmon/hwmon3/temp1_input",
        "/sys/class/drm/card1/device/power/runtime_status",
    ]


def test_a_path_that_several_patterns_match_is_read_once(root: Path) -> None:
    (root / "sys/devices/0000:03:00.0/gpu_busy_percent").write_bytes(b"7\xb0\n")
    request = Files(globs=(CARDS + "/device/gpu_*percent", CARDS + "/device/gpu_busy_percent", "/sys/none*"))
    assert [output.text for output in read_files(request, root)] == ["7\ufffd\n", "98\n"], "what is no text is replaced"


def test_missing_files_give_no_output(root: Path) -> None:
    nothing = ("/sys/class/drm/renderD*", "/sys/none/*/file", "/none", "/sys/class/drm/card0/device/gpu_metrics/x*")
    assert read_files(Files(globs=nothing, links=nothing, binary=nothing), root) == ()
    assert read_files(Files(), root) == ()


@pytest.mark.parametrize(("size", "status"), [(FILE_LIMIT_BYTES, 0), (FILE_LIMIT_BYTES + 1, errno.EFBIG)])
def test_file_above_the_limit_is_not_read_in_part(root: Path, size: int, status: int) -> None:
    (root / "big").write_bytes(b"1" * size)
    (output,) = read_files(Files(globs=("/big",)), root)
    assert output == Output("/big", text="" if status else "1" * size, status=status)


def test_irregular_file_is_reported_and_not_opened(root: Path) -> None:
    os.mkfifo(root / "a-pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(root / "a-socket"))
        (root / "a-null").symlink_to("/dev/null")
        (root / "dangling").symlink_to("nowhere")
        (root / "loop").symlink_to("loop")
        outputs = read_files(Files(globs=("/a-*", "/dangling", "/loop", "/sys"), links=("/sys",)), root)
    assert [(output.name, output.status, output.text) for output in outputs] == [
        ("/a-null", errno.EINVAL, ""),
        ("/a-pipe", errno.EINVAL, ""),
        ("/a-socket", errno.EINVAL, ""),
        ("/dangling", errno.ENOENT, ""),
        ("/loop", errno.ELOOP, ""),
        ("/sys", errno.EISDIR, ""),
        ("/sys", errno.EINVAL, ""),
    ]


def test_a_folder_that_cannot_be_looked_into_is_reported(root: Path) -> None:
    (root / "loop").symlink_to("loop")
    request = Files(globs=("/loop/card*/busy", "/sys/class/drm/none*"))
    assert read_files(request, root) == (Output("/loop/card*/busy", status=errno.ELOOP),)


def test_a_pattern_that_matches_too_much_is_refused(tmp_path: Path) -> None:
    (tmp_path / "many").mkdir()
    (tmp_path / "few").write_text("1")
    for number in range(MATCH_LIMIT + 1):
        (tmp_path / "many" / str(number)).touch()
    outputs = read_files(Files(globs=("/many/*", "/few")), tmp_path)
    assert outputs == (ok("/few", "1"), Output("/many/*", status=errno.E2BIG))


def test_two_stars_do_not_descend(root: Path) -> None:
    (root / "a/b/c").mkdir(parents=True)
    for folder in ("a", "a/b", "a/b/c"):
        (root / folder / "file").write_text(folder)
    assert [output.name for output in read_files(Files(globs=("/a/**/file",)), root)] == ["/a/b/file"]


def test_real_files_of_the_kernel_are_read_below_the_real_root() -> None:
    (output,) = read_files(Files(globs=("/proc/self/stat",)))
    assert output.status == 0
    assert output.text.startswith(f"{os.getpid()} (")


@pytest.mark.parametrize("pattern", ["/proc/self/mem", "/proc/self/task/*/mem"])
def test_an_error_of_the_kernel_is_the_status(pattern: str) -> None:
    outputs = read_files(Files(globs=(pattern,)))
    assert {output.status for output in outputs} == {errno.EIO}
    assert {output.text for output in outputs} == {""}
