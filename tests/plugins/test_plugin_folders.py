"""A folder of plugin modules is used only if no user but root and the service user can change it."""

import os
from pathlib import Path

import pytest

from plugins import distributions

OTHER_USER = 65534


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "etc" / "plugins"
    made.mkdir(parents=True, mode=0o755)
    (made / "acme.py").write_text(distributions.source())
    (made / "acme.py").chmod(0o644)
    return made


def only_failure(site: distributions.Site, folder: Path) -> str:
    with site.load(folder) as loaded:
        assert not [item for item in loaded.parsers if item.is_isolated]
        (failure,) = loaded.failures
    return failure.text


def isolated(site: distributions.Site, folder: Path) -> list[str]:
    with site.load(folder) as loaded:
        assert loaded.failures == ()
        return [item.parser.name for item in loaded.parsers if item.is_isolated]


@pytest.mark.parametrize(
    ("where", "mode"),
    [("acme.py", 0o664), ("acme.py", 0o646), (".", 0o775), (".", 0o757), ("..", 0o775), ("..", 0o757)],
)
def test_file_that_others_can_write_is_not_run(site: distributions.Site, folder: Path, where: str, mode: int) -> None:
    path = (folder / where).resolve()
    path.chmod(mode)
    expected = f"{path} can be written by others, who could change the code: chmod go-w {path}"
    assert only_failure(site, folder) == expected


def test_sticky_folder_is_accepted_above_only(site: distributions.Site, folder: Path) -> None:
    folder.parent.chmod(0o1777)
    assert isolated(site, folder) == ["acme-smi"]
    folder.chmod(0o1777)
    assert only_failure(site, folder).endswith(f"chmod go-w {folder}")


def test_link_is_judged_by_its_target(site: distributions.Site, folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o755)
    (elsewhere / "other.py").write_text(distributions.source("other-smi"))
    (folder / "other.py").symlink_to(elsewhere / "other.py")
    assert isolated(site, folder) == ["acme-smi", "other-smi"]
    elsewhere.chmod(0o777)
    with site.load(folder) as loaded:
        assert [item.parser.name for item in loaded.parsers if item.is_isolated] == ["acme-smi"]
        (failure,) = loaded.failures
    assert failure.plugin == f"{folder}/other.py"
    assert failure.text.endswith(f"chmod go-w {elsewhere}")


def test_module_of_another_user_is_not_run(site: distributions.Site, folder: Path) -> None:
    """Only root can change a file's owner; other users test with a file of root's."""
    file = folder / "acme.py"
    if os.geteuid() == 0:
        os.chown(file, OTHER_USER, -1)
        expected = f"{file} belongs to user {OTHER_USER}, who could change the code: chown root {file}"
        assert only_failure(site, folder) == expected
    else:
        assert isolated(site, folder) == ["acme-smi"]


def test_missing_file_is_reported(site: distributions.Site, folder: Path, tmp_path: Path) -> None:
    expected = "cannot be read (No such file or directory): "
    assert only_failure(site, tmp_path / "missing") == f"{expected}create the folder, or remove it from parsers.paths"
    (folder / "gone.py").symlink_to(folder / "nowhere.py")
    with site.load(folder) as loaded:
        assert [item.parser.name for item in loaded.parsers if item.is_isolated] == ["acme-smi"]
        (failure,) = loaded.failures
    assert failure.text == f"{expected}fix or remove {folder}/gone.py"
