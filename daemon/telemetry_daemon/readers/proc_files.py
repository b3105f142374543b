"""The kernel's files of one process, read with few calls: its start, user, named variables and open cards."""

from __future__ import annotations

import os
from collections.abc import Iterator

from telemetry_parsers.model import Plain

LARGEST_BYTES = 64 << 10
_LARGEST_ENVIRONMENT_BYTES = 1 << 20
_LARGEST_COMMAND_BYTES = 128 << 10
_LARGEST_FDINFO_BYTES = 16 << 10
_MOST_DESCRIPTORS = 1024
_LONGEST_STAT = 4096
_CARD = b"drm-pdev"
# The kernel makes the folder's inode anew for each process, and sometimes for the same one.
Mark = tuple[int, int]
# Nothing else of an environment leaves the function that reads it: it holds passwords.
VARIABLES = (
    *("SLURM_JOB_ID", "SLURM_JOB_SLUID", "PBS_JOBID", "FLUX_JOB_ID"),
    *("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "FLUX_TASK_RANK"),
)


def mark_of(folder: str) -> Mark | None:
    """What no other process's folder has, at a third of what its start costs; the same process may have another one later."""
    try:
        status = os.stat(folder)  # noqa: PTH116  # as cheap as can be: for each process at each poll
    except OSError:  # it has ended, or is hidden from us
        return None
    return status.st_ino, status.st_ctime_ns


def ticks_of(folder: str) -> int | None:
    """When a process started, in ticks since the machine did; None if there is none. Its name may have any characters."""
    try:
        descriptor = os.open(f"{folder}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            content = os.read(descriptor, _LONGEST_STAT)  # the kernel gives all of it at once
        finally:
            os.close(descriptor)
        return int(content[content.rindex(b")") :].split(None, 21)[20])
    except (OSError, ValueError, LookupError):  # it has ended, or is hidden from us
        return None


def uid_of(folder: str) -> int:
    """The number of the user who started it, as the line `Uid:` of its status begins."""
    status = text_of(f"{folder}/status")
    line = next((line for line in status.splitlines() if line.startswith("Uid:")), "Uid: 0")
    return int(line.split()[1])


def named_variables(folder: str) -> dict[str, Plain]:
    """The named variables; none where the environment cannot be read, which takes a right of its own."""
    try:
        content = text_of(f"{folder}/environ", _LARGEST_ENVIRONMENT_BYTES)
    except OSError:  # the right to read it was not given
        return {}
    pairs = (entry.partition("=") for entry in content.split("\0"))
    return {name: value for name, _, value in pairs if name in VARIABLES}


def open_cards(folder: str) -> Iterator[str]:
    """What the kernel tells of each open file of a card; nothing where that cannot be read."""
    try:
        descriptors = os.listdir(f"{folder}/fdinfo")  # noqa: PTH208  # as cheap as can be: for each process
    except OSError:  # another's are read with a right of its own
        return
    for descriptor in descriptors[:_MOST_DESCRIPTORS]:
        try:
            content = bytes_of(f"{folder}/fdinfo/{descriptor}", _LARGEST_FDINFO_BYTES)
        except OSError:  # it was closed meanwhile
            continue
        if _CARD in content:
            yield content.decode("utf-8", errors="replace")


def command_line(pid: int) -> str:
    """All arguments of a process, for the terminal of who may read them; empty where they cannot be read. They hold secrets."""
    try:
        return text_of(f"/proc/{pid}/cmdline", _LARGEST_COMMAND_BYTES).rstrip("\0").replace("\0", " ")
    except OSError:  # it has ended, or is another user's on a machine that hides them
        return ""


def text_of(path: str, most_bytes: int = LARGEST_BYTES) -> str:
    """The beginning of one of the kernel's files as text."""
    return bytes_of(path, most_bytes).decode("utf-8", errors="replace")


def bytes_of(path: str, most_bytes: int) -> bytes:
    """The beginning of one of the kernel's files."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = b""
        while len(content) < most_bytes and (chunk := os.read(descriptor, most_bytes - len(content))):
            content += chunk
    finally:
        os.close(descriptor)
    return content
