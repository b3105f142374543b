"""Rules of the project that no other tool checks. The script prints a line for each violation."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

MAX_MODULE_LINES = 400
MAX_FUNCTION_LINES = 60
FOLDERS = frozenset({".ci", "benchmarks", "daemon", "deploy", "docs", "exporters", "grafana", "parsers", "tests"})
ROOTS = ("daemon", "exporters", "parsers")

_REGISTRY_HOSTS = re.compile(
    r"pypi\.org|pythonhosted\.org|registry\.npmjs\.org|deb\.debian\.org|proxy\.golang\.org|static\.crates\.io"
)
_MACHINE_PATHS = re.compile(r"(?:^|[^A-Za-z0-9_.])(/(?:work|farm|root)/[^\s\"']*)")
_UNEXPLAINED_SUPPRESSION = re.compile(r"#\s*(?:noqa(?::[\sA-Z0-9,]+)?|type:\s*ignore(?:\[[^\]]*\])?)\s*$")

# Earlier commits may contain old words and long subjects.
_CHECKED_SINCE = "bc5e98fcdbac100426749c7d5911c0c3c25ebe73"
MAX_SUBJECT_LENGTH = 72
_STANDARD_WORDS = {
    "told": "reported, printed, shown or returned",
    "anew": "again, rebuilt or reset",
    "nobody": "no user, no owner or unallocated",
    "whoever": "the user, the client or the caller",
}
_OLD_WORD = re.compile(r"\b([Tt]old|[Aa]new|[Nn]obody|[Ww]hoever)\b")  # not the constant NOBODY
_QUOTED = re.compile(r"""(["'`(])(nobody|told)(["'`)])""")  # word values in documents
_FILES_WITH_OLD_WORDS = frozenset({".ci/checks.py", "docs/architecture.md"})
_HUNK = re.compile(r"@@ -\S+ \+(\d+)")

# Matches code in Python and the shell that ignores an error.
_IGNORED_ERROR = re.compile(r"""\bsuppress\(|ignore_(?:cleanup_)?errors=True|filter\("ignore"|\|\| true\b""")


@dataclass(frozen=True)
class File:
    """A file of the project: its path below the checkout, and its text (None for binary files)."""

    name: str
    text: str | None

    @property
    def is_python(self) -> bool:
        """Return whether the file is a Python module or script."""
        return self.name.endswith(".py") and self.text is not None

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield the number and the text of each line, counted from 1."""
        return enumerate((self.text or "").splitlines(), start=1)


def long_modules(file: File) -> Iterator[str]:
    """Report a module that is too long to have one topic."""
    count = sum(1 for _ in file.lines())
    if file.is_python and count > MAX_MODULE_LINES:
        yield f"{file.name}:1: {count} lines, at most {MAX_MODULE_LINES}; split the module"


def long_functions(file: File) -> Iterator[str]:
    """Report functions that do not fit on a screen. Tests contain tables and may be longer."""
    if not file.is_python or file.name.startswith("tests/"):
        return
    for node in ast.walk(ast.parse(file.text or "")):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MAX_FUNCTION_LINES:
                yield f"{file.name}:{node.lineno}: {node.name} has {length} lines, at most {MAX_FUNCTION_LINES}"


def stray_packages(file: File) -> Iterator[str]:
    """Report an `__init__.py` in a source root: `daemon` is also the import name of another project."""
    if file.name in {f"{root}/__init__.py" for root in ROOTS}:
        yield f"{file.name}:1: a source root must not be a package; remove the file"


def stray_folders(file: File) -> Iterator[str]:
    """Report files outside the fixed list of top-level folders."""
    folder, slash, _ = file.name.partition("/")
    if slash and folder not in FOLDERS:
        yield f"{file.name}:1: {folder}/ is not among the top-level folders"


def machine_specific_names(file: File) -> Iterator[str]:
    """Report addresses of package registries and paths of a developer's machine."""
    for number, line in file.lines():
        for found in (*_REGISTRY_HOSTS.findall(line), *_MACHINE_PATHS.findall(line)):
            yield f"{file.name}:{number}: {found} is specific to a machine or registry; remove it"


def unexplained_suppressions(file: File) -> Iterator[str]:
    """Report suppressed checks (`noqa`, `type: ignore`) without a reason after them."""
    for number, line in file.lines():
        if file.is_python and _UNEXPLAINED_SUPPRESSION.search(line):
            yield f"{file.name}:{number}: add the reason after the disabled check"


def unexplained_ignored_errors(file: File) -> Iterator[str]:
    """Report ignored errors without a reason in a comment nearby."""
    lines = (file.text or "").splitlines()
    if not (file.is_python or (file.text or "").startswith("#!")):
        return
    for number, line in file.lines():
        ignores_exception = line.strip() in {"pass", "continue"} and lines[number - 2].lstrip().startswith("except")
        if (ignores_exception or _IGNORED_ERROR.search(line)) and not any(
            "#" in text for text in lines[max(0, number - 3) : number + 1]
        ):
            yield f"{file.name}:{number}: add a comment that says why the error may be ignored"


def old_words(commit_range: str, checkout: Path) -> Iterator[str]:
    """Report old words in the lines that these commits added. docs/architecture.md lists the standard words in "Words"."""
    name, number = "", 0
    changes = _git(checkout, "diff", "--unified=0", "--no-color", commit_range, "--", "*.py", "*.md") or ""
    for line in changes.splitlines():
        if line.startswith("+++ b/"):
            name = line[6:]
        elif hunk := _HUNK.match(line):
            number = int(hunk[1]) - 1
        elif line.startswith("+"):
            number += 1
            for word in _OLD_WORD.findall(_QUOTED.sub("", line)):
                if name not in _FILES_WITH_OLD_WORDS:
                    yield f"{name}:{number}: write {_STANDARD_WORDS[word.lower()]} instead of '{word}'"


def long_subjects(commit_range: str, checkout: Path) -> Iterator[str]:
    """Report subjects of these commits that exceed 72 characters or end with a full stop."""
    for subject in (_git(checkout, "log", "--format=%s", commit_range) or "").splitlines():
        if len(subject) > MAX_SUBJECT_LENGTH or subject.endswith("."):
            yield f"commit '{subject}': at most {MAX_SUBJECT_LENGTH} characters, without a full stop"


CHECKS: tuple[Callable[[File], Iterator[str]], ...] = (
    long_modules,
    long_functions,
    stray_packages,
    stray_folders,
    machine_specific_names,
    unexplained_suppressions,
    unexplained_ignored_errors,
)


def project_files(checkout: Path) -> Iterator[File]:
    """Yield the files that git tracks or would add. Without git, yield all files."""
    for name in _file_names(checkout):
        path = checkout / name
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            yield File(name, None if b"\0" in content else content.decode("utf-8", "replace"))


def _file_names(checkout: Path) -> list[str]:
    output = _git(checkout, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if output is None:
        return sorted(str(path.relative_to(checkout)) for path in checkout.rglob("*") if path.is_file())
    return sorted(set(output.split("\0")) - {""})


def _git(checkout: Path, *arguments: str) -> str | None:
    """Return git's output, or None if git or these commits are missing, as in an unpacked archive."""
    # The checkout may belong to another user, which git refuses otherwise.
    git_settings = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
    command = ("git", "-C", str(checkout), *arguments)
    try:
        return subprocess.run(command, env=os.environ | git_settings, capture_output=True, check=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None


def main(arguments: list[str]) -> int:
    """Check one checkout, by default the script's own. Return 1 if a rule is violated."""
    checkout = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    files = list(project_files(checkout))
    violations = [line for file in files for check in CHECKS for line in check(file)]
    since = f"{_CHECKED_SINCE}..HEAD"
    violations += [*old_words(since, checkout), *long_subjects(since, checkout)]
    sys.stdout.write("".join(f"{line}\n" for line in violations) or f"{len(files)} files keep the project's rules\n")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
