"""The files with objects that paths on a command line stand for, and what is passed over in folders."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from policies.glob import matches
from webhook.files import ignore
from webhook.files.ignore import Pattern
from webhook.files.manifest import SUFFIXES

OTHERS = (
    "Chart.yaml", "kustomization.yaml", "kustomization.yml", "values*.yaml", "values*.yml", "values*.json",
    "package.json", "package-lock.json", "suite.yaml", "*.suite.yaml",
)  # fmt: skip
"""Names of files that lie beside manifests and hold no objects of a cluster."""


class Walk(NamedTuple):
    """Files in their order, those that are passed over, each with the reason, and what could not be listed."""

    files: tuple[str, ...]
    passed: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def walk(paths: Iterable[str], patterns: Iterable[str] = ()) -> Walk:
    """The files at paths: `-` and files as they are, of folders those below, sorted by name.

    In a folder, what begins with a dot, what a pattern or a .cksignore excludes and what holds no objects is left out.
    """
    here = Path.cwd()
    given = [made for text in patterns if (made := ignore.pattern(text, here)) is not None]
    steps = [_folder(path, given) if path != "-" and Path(path).is_dir() else Walk((path,)) for path in paths]
    return Walk(*(tuple(dict.fromkeys(item for step in steps for item in step[field])) for field in range(3)))


def _folder(root: str, given: list[Pattern]) -> Walk:
    files: list[str] = []
    passed: list[str] = []
    problems: list[str] = []
    known: dict[Path, list[Pattern]] = {}
    try:
        above = [*given, *_above(Path(root).absolute())]
    except (OSError, UnicodeDecodeError) as error:
        return Walk((), (), (f"{ignore.NAME}: cannot be read: {error}",))
    for walked, below, names in os.walk(root, onerror=lambda e: problems.append(f"{e.filename}: {e.strerror}")):
        folder = Path(walked)
        try:
            known[folder] = [*known.get(folder.parent, above), *ignore.of_folder(folder.absolute())]
        except (OSError, UnicodeDecodeError) as error:
            problems.append(f"{folder / ignore.NAME}: cannot be read: {error}")
            known[folder] = above
        below[:] = _kept(folder, below, known[folder], folders=True)
        if "Chart.yaml" in names and "templates" in below:
            below.remove("templates")
            passed.append(f"{folder / 'templates'} (try: helm template {folder} | cks-admission check -)")
        for name in _kept(folder, names, known[folder], folders=False):
            file = folder / name
            if file.suffix in SUFFIXES and file.is_file():
                (passed if matches(name, OTHERS) else files).append(str(file))
    return Walk(tuple(sorted(files)), tuple(sorted(passed)), tuple(problems))


def _above(root: Path) -> Iterator[Pattern]:
    """The patterns of the current folder, if the root lies below it."""
    here = Path.cwd()
    if root != here and root.is_relative_to(here):
        yield from ignore.of_folder(here)


def _kept(folder: Path, names: Iterable[str], patterns: list[Pattern], *, folders: bool) -> list[str]:
    place = folder.absolute()
    return [
        name
        for name in sorted(names)
        if not name.startswith(".") and not ignore.excluded(place / name, patterns, folder=folders)
    ]
