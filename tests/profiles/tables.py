"""Functions that read text profiles in tests."""

from telemetry_profile.files.read_files import installed_formats
from telemetry_profile.format_contract import HEAD_BYTES, Facts, FileSample, TextFormat

TEXTS = [text_format for text_format in installed_formats() if isinstance(text_format, TextFormat)]


def facts_of(name: str, data: bytes | str) -> Facts:
    found = facts_of_text(name, data)
    assert found is not None, f"no format of lines knows {name}"
    return found


def facts_of_text(name: str, data: bytes | str) -> Facts | None:
    """Return the facts of a file; None if no text format recognises it, and fail for several formats."""
    content = data.encode() if isinstance(data, str) else data
    *folders, last = name.split("/")
    file = FileSample(last, tuple(folders), content[:HEAD_BYTES])
    found = [text_format for text_format in TEXTS if text_format.recognises(file)]
    assert len(found) <= 1, [text_format.name for text_format in found]
    text = content.decode("utf-8-sig", "replace")
    return found[0].read(file, iter(text.removesuffix("\n").split("\n"))) if found else None
