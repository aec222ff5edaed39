"""The files that paths on a command line stand for, what is passed over in folders, and when files may have changed."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import NamedTuple

from policies.kubernetes.name import matches_glob
from webhook.files import yamlfile
from webhook.files.manifest import KUSTOMIZATIONS, SUFFIXES

# The kernel reports changes, but not on every file system, nor if a whole directory was replaced.
LOOK_SECONDS = 10.0


def require() -> None:
    """Raise ImportError where the package is missing that changes() needs."""
    import watchfiles  # noqa: F401, PLC0415 - as there


async def changes(paths: Iterable[Path | str], *, recursive: bool = True) -> AsyncIterator[None]:
    """Yields at a change in one of the files or directories, and after LOOK_SECONDS without one.

    recursive: whether subdirectories count.
    """
    from watchfiles import awatch  # noqa: PLC0415 - nothing to watch, nothing to load

    milliseconds = int(LOOK_SECONDS * 1000)
    async for _ in awatch(*paths, recursive=recursive, rust_timeout=milliseconds, yield_on_timeout=True, debounce=400):
        yield


IGNORE_FILE = ".cksignore"
_TOKEN = re.compile(r"\*\*/|\*\*|\*|\?|[^*?]+")
_MEANING = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


class Pattern(NamedTuple):
    """A pattern. base: the folder that it is relative to. folders: whether it is about folders only."""

    base: Path
    expression: re.Pattern[str]
    excludes: bool
    folders: bool


def _patterns_of(lines: Iterable[str], base: Path) -> list[Pattern]:
    """The patterns on lines, without blank lines and comments.

    One with a slash before its end is relative to the base; any other one is about names in all folders below.
    """
    patterns = []
    for line in map(str.strip, lines):
        if line and not line.startswith("#"):
            name = line.removeprefix("!")
            anywhere = "" if "/" in name.rstrip("/") else "(?:.*/)?"
            tokens = _TOKEN.findall(name.strip("/"))
            expression = anywhere + "".join(_MEANING.get(token) or re.escape(token) for token in tokens)
            patterns.append(Pattern(base, re.compile(expression), not line.startswith("!"), name.endswith("/")))
    return patterns


def _of_folder(folder: Path) -> list[Pattern]:
    """The patterns in the .cksignore of a folder, if there is one. Raises OSError, UnicodeDecodeError."""
    file = folder / IGNORE_FILE
    return _patterns_of(yamlfile.content(file).decode().splitlines(), folder) if file.is_file() else []


OTHERS = (
    "Chart.yaml", *KUSTOMIZATIONS, "values*.yaml", "values*.yml", "values*.json",
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
    given = _patterns_of(patterns, Path.cwd())
    steps = [_folder(path, given) if path != "-" and Path(path).is_dir() else Walk((path,)) for path in paths]
    return Walk(*(tuple(dict.fromkeys(item for step in steps for item in step[field])) for field in range(3)))


def _folder(root: str, given: list[Pattern]) -> Walk:
    files: list[str] = []
    passed: list[str] = []
    problems: list[str] = []
    patches: dict[Path, Path] = {}
    known: dict[Path, list[Pattern]] = {}
    try:
        above, here = list(given), Path.cwd()  # the patterns of the current folder, if the root lies below it
        if Path(root).absolute() != here and Path(root).absolute().is_relative_to(here):
            above += _of_folder(here)
    except (OSError, UnicodeDecodeError) as error:
        return Walk((), (), (f"{IGNORE_FILE}: cannot be read: {error}",))
    for walked, below, names in os.walk(root, onerror=lambda e: problems.append(f"{e.filename}: {e.strerror}")):
        folder = Path(walked)
        try:
            known[folder] = [*known.get(folder.parent, above), *_of_folder(folder.absolute())]
        except (OSError, UnicodeDecodeError) as error:
            problems.append(f"{folder / IGNORE_FILE}: cannot be read: {error}")
            known[folder] = above
        below[:] = _kept(folder, below, known[folder], folders=True)
        if "Chart.yaml" in names and "templates" in below:
            below.remove("templates")
            passed.append(f"{folder / 'templates'} (try: helm template {folder} | cks-admission check -)")
        for name in set(KUSTOMIZATIONS) & set(names):
            patches |= dict.fromkeys(_patches(folder / name), folder)
        for name in _kept(folder, names, known[folder], folders=False):
            file = folder / name
            if file.suffix in SUFFIXES and (what := yamlfile.odd(file)):
                passed.append(f"{file} (it is {what}, not a regular file)")
            elif file.suffix in SUFFIXES and file.is_file():
                (passed if matches_glob(name, OTHERS) else files).append(str(file))
    places = {file: Path(file).resolve() for file in files}
    hint = "(a patch; try: kubectl kustomize {} | cks-admission check -)"
    passed += [f"{file} {hint.format(patches[place])}" for file, place in places.items() if place in patches]
    kept = sorted(file for file, place in places.items() if place not in patches)
    return Walk(tuple(kept), tuple(sorted(passed)), tuple(problems))


_PATCHES = ("patches", "patchesStrategicMerge", "patchesJson6902", "replacements", "configurations")


def _patches(kustomization: Path) -> list[Path]:
    """The files that a kustomization.yaml names and that hold no objects; none if it cannot be read."""
    try:
        documents = [document.value for document in yamlfile.load(str(kustomization), yamlfile.content(kustomization))]
    except (OSError, yamlfile.FileError):
        return []
    maps = [value for value in documents if isinstance(value, dict)]
    written = [one for value in maps for field in _PATCHES for one in value.get(field) or ()]
    named = [one.get("path") if isinstance(one, dict) else one for one in written]
    # An entry may also be a patch itself, of several lines.
    return [(kustomization.parent / name).resolve() for name in named if isinstance(name, str) and "\n" not in name]


def _kept(folder: Path, names: Iterable[str], patterns: list[Pattern], *, folders: bool) -> list[str]:
    """The names in a folder, sorted, that do not begin with a dot and that the last pattern about them includes."""
    kept = []
    for name in sorted(names):
        path = folder.absolute() / name
        inside = (one for one in patterns if path.is_relative_to(one.base) and (folders or not one.folders))
        about = [one for one in inside if one.expression.fullmatch(path.relative_to(one.base).as_posix())]
        if not name.startswith(".") and not (about and about[-1].excludes):
            kept.append(name)
    return kept
