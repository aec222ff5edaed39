"""What directories of policies hold, and what of them is read again."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from policies.admissionpolicy.documents.reader import together
from policies.kubernetes.release import NEWEST
from webhook.sources import policyset
from webhook.sources.policyset import Content, Directories, Readings

_CONTEXT = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\n"


def _write(file: Path, *names: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("---\n".join(_CONTEXT.replace("NAME", name) for name in names), encoding="utf-8")


async def _read(*paths: Path, readings: Readings | None = None) -> dict[str, Content]:
    units = await Directories(tuple(map(str, paths))).units(NEWEST)
    known = await (readings or Readings()).all(units, NEWEST)
    return dict(policyset.contents(units, known))


async def _names(path: Path) -> list[str]:
    return [part.report.document.value["metadata"]["name"] for part in (await _read(path))[str(path)].parts]


async def test_a_directory_is_read_by_name(tmp_path: Path) -> None:
    """All YAML and JSON files below it, the ones of a directory in their order before those below; suites are none."""
    _write(tmp_path / "b.yaml", "b", "b2")
    _write(tmp_path / "a.yml", "a")
    _write(tmp_path / "inner" / "c.yaml", "c")
    (tmp_path / "d.json").write_text('{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "d"}}')
    (tmp_path / "suite.yaml").write_text("name: x")
    (tmp_path / "README.md").write_text("# Policies")

    assert await _names(tmp_path) == ["a", "b", "b2", "d", "c"]


async def test_a_mounted_config_map(tmp_path: Path) -> None:
    """The files that kubelet links are read once, and again when it switches the link to a new directory."""
    _write(tmp_path / "..2026_01" / "a.yaml", "old")
    _write(tmp_path / "..2026_02" / "a.yaml", "new")
    (tmp_path / "..data").symlink_to("..2026_01")
    (tmp_path / "a.yaml").symlink_to("..data/a.yaml")
    before = (await _read(tmp_path))[str(tmp_path)]

    (tmp_path / "..next").symlink_to("..2026_02")
    (tmp_path / "..next").rename(tmp_path / "..data")

    assert [part.report.document.value["metadata"]["name"] for part in before.parts] == ["old"]
    assert await _names(tmp_path) == ["new"]
    assert (await _read(tmp_path))[str(tmp_path)].version != before.version


async def test_only_files_that_changed_are_read_again(tmp_path: Path) -> None:
    """What stands in an unchanged file stays the same object, whatever its dates; the version tells a change."""
    _write(tmp_path / "a.yaml", "a")
    _write(tmp_path / "b.yaml", "b")
    readings = Readings()
    first = (await _read(tmp_path, readings=readings))[str(tmp_path)]

    (tmp_path / "a.yaml").touch()
    same = (await _read(tmp_path, readings=readings))[str(tmp_path)]
    _write(tmp_path / "b.yaml", "other")
    third = (await _read(tmp_path, readings=readings))[str(tmp_path)]

    assert (same.version == first.version, third.version == first.version) == (True, False)
    assert [one is other for one, other in zip(first.parts, same.parts, strict=True)] == [True, True]
    assert [one is other for one, other in zip(first.parts, third.parts, strict=True)] == [True, False]


async def test_all_that_cannot_be_read(tmp_path: Path) -> None:
    """Every file that is no YAML or no text is named, with the place; a path that is not there is a problem too."""
    (tmp_path / "a.yaml").write_text("a: [")
    (tmp_path / "b.yaml").write_bytes(b"a: \xff")
    _write(tmp_path / "c.yaml", "c")
    missing = tmp_path / "missing.yaml"

    found = await _read(tmp_path, missing)

    assert {path: content.problem for path, content in found.items()} == {
        str(tmp_path): f"{tmp_path}/a.yaml:2:1: not valid YAML: did not find expected node content\n"
        f"{tmp_path}/b.yaml: not UTF-8 text: invalid start byte at byte 3",
        str(missing): f"{missing}: cannot be read: No such file or directory",
    }


async def test_what_cannot_be_listed_is_not_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that cannot be read, as on a file system that is away, has a problem and has not lost its files."""
    _write(tmp_path / "a.yaml", "a")
    _write(tmp_path / "inner" / "b.yaml", "b")
    listed = os.scandir

    def away(path: str) -> Any:
        if str(path).endswith("inner"):
            raise OSError(errno.ESTALE, "Stale file handle", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", away)

    assert (await _read(tmp_path))[str(tmp_path)].problem == f"{tmp_path}/inner: cannot be read: Stale file handle"


async def test_what_is_no_file_is_passed_over(tmp_path: Path) -> None:
    """A FIFO or a link to a device in a directory is named and not opened; named itself, it is refused."""
    _write(tmp_path / "a.yaml", "a")
    os.mkfifo(tmp_path / "b.yaml")
    (tmp_path / "c.yaml").symlink_to("/dev/zero")
    fifo = tmp_path / "b.yaml"

    found = await _read(tmp_path, fifo)

    assert {path: content.problem for path, content in found.items()} == {
        str(tmp_path): "",
        str(fifo): f"{fifo}: cannot be read: it is a FIFO, not a regular file",
    }
    loaded = together(found[str(tmp_path)].parts)
    assert [document.value["metadata"]["name"] for document in loaded.context if document.value] == ["a"]
    assert [problem.message for problem in loaded.warnings] == [
        f"{fifo} is a FIFO, not a regular file: it is passed over",
        f"{tmp_path}/c.yaml is a device, not a regular file: it is passed over",
    ]
