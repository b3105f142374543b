"""Every call that opens, creates, moves or removes a file is in the package `guarded`, or listed here with a reason."""

import ast
from collections import defaultdict
from collections.abc import Iterator

from kits.captures import ROOT

PACKAGES = (
    "daemon/telemetry_daemon",
    "daemon/telemetry_profile",
    "exporters/telemetry_exporters",
    "parsers/telemetry_parsers",
)
ROOM = "daemon/telemetry_daemon/guarded/"

# Calls of these names on any object: os, a Path, a socket, shutil, tempfile, logging.
WORDS = """
open fdopen creat memfd_create write_text write_bytes read_text read_bytes touch truncate pwrite ftruncate mkdir
makedirs rmdir removedirs unlink remove rename renames symlink symlink_to link hardlink_to link_to chmod lchmod
fchmod chown lchown fchown mkfifo mknod setxattr utime bind start_unix_server open_unix_connection
UnixStreamServer copy copy2 copyfile copyfileobj copytree copymode copystat move rmtree make_archive
unpack_archive mkstemp mkdtemp mktemp gettempdir NamedTemporaryFile TemporaryFile TemporaryDirectory
SpooledTemporaryFile FileHandler RotatingFileHandler TimedRotatingFileHandler WatchedFileHandler
"""
CALLS = frozenset(WORDS.split())
COMMON_WORDS = frozenset({"remove", "copy", "move"})
MODULES = frozenset({"os", "io", "shutil", "tempfile", "pathlib", "fileinput", "dbm", "shelve", "sqlite3", "mmap"})

KERNEL = "a file of /proc or /sys: the kernel's own, read only"
PLACES = {
    "cli.py": {"open": "/dev/null"},
    "readers/jobs/hook_process.py": {"open": "/dev/null", "fdopen": "a pipe to our parent"},
    "terminal/streams.py": {"open": "/dev/null", "fdopen": "a standard stream"},
    "readers/device_nodes.py": {"open": "a device node, to learn why the kernel refuses it"},
    "commands/completions.py": {"read_text": "a file of the package itself"},
    "masking/words.py": {"read_text": "a file of the package itself"},
    "recordings/recording_file.py": {"fdopen": "the descriptor that guarded.reading gave"},
    "recordings/flight_recorder.py": {"memfd_create": "memory without a name", "fdopen": "the same"},
    "recordings/flight_writer.py": {"fdopen": "the memory that the daemon gave"},
    "doctor/bundle.py": {"open": "an archive in memory", "fdopen": "the descriptor that guarded.named gave"},
    "telemetry_profile/files/database.py": {"fdopen": "the descriptor that guarded.reading gave"},
    "telemetry_profile/files/read_files.py": {"fdopen": "the descriptor that guarded.reading gave"},
    "recordings/recorder.py": {"ftruncate": "by the descriptor that guarded.named gave"},
    "remote/control_socket.py": {"start_unix_server": "on the socket that guarded.own_folder bound"},
    "web/server/listeners.py": {"bind": "an address of the network", "open": KERNEL, "read_text": KERNEL},
    "web/access/tls.py": {"memfd_create": "memory without a name", "open": "the same"},
    "processes/worker_main.py": {"open": "the pipe of requests"},
    "readers/proc.py": {"open": KERNEL},
    "readers/host.py": {"open": KERNEL, "read_bytes": KERNEL},
    "readers/tool_lock.py": {"read_bytes": KERNEL, "pwrite": "into the lock file that guarded.own_folder opened"},
    "plugins/built_in.py": {"read_bytes": "a file of the package itself"},
    "processes/process.py": {"read_bytes": KERNEL},
    "site/page_files.py": {"read_text": "a file of the package itself"},
    "site/process_metrics.py": {"read_bytes": KERNEL, "read_text": KERNEL},
    "readers/pci.py": {"read_text": KERNEL},
    "readers/nvml/reader.py": {"open": "its own method: it opens a library"},
}


def calls(tree: ast.AST) -> Iterator[str]:
    """Yield the names of the calls that may access a file, as function or method."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in MODULES:
            yield from (alias.name for alias in node.names if alias.name in CALLS | {"replace"})
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if name in CALLS and (name not in COMMON_WORDS or _is_module(function)):
            yield name
        # Path.replace has a single argument; str.replace and dataclasses.replace have more, or keywords.
        moved = name == "replace" and isinstance(function, ast.Attribute) and len(node.args) == 1 and not node.keywords
        if moved or (name == "replace" and _is_module(function)):
            yield name


def _is_module(function: ast.expr) -> bool:
    """Return whether the function is a module's. `list.remove` and `dict.copy` access no files."""
    return isinstance(function, ast.Attribute) and getattr(function.value, "id", "") in MODULES


def found() -> dict[str, set[str]]:
    calls_by_file: defaultdict[str, set[str]] = defaultdict(set)
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            name = str(file.relative_to(ROOT))
            if not name.startswith(ROOM):
                calls_by_file[name.removeprefix("daemon/").removeprefix("telemetry_daemon/")] |= set(
                    calls(ast.parse(file.read_text()))
                )
    return {name: names for name, names in calls_by_file.items() if names}


def test_files_are_opened_by_guarded_modules_or_listed_functions() -> None:
    """New code opens files through telemetry_daemon.guarded, or states here why no user can change the path."""
    assert found() == {name: set(reasons) for name, reasons in PLACES.items()}
