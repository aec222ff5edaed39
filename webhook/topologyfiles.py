"""Files with topologies, in the forms of KAI, of Kueue and of Run:ai's API."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from policies.fieldpath import Location
from policies.topology.document import TopologyError
from policies.topology.document import read as topology
from policies.topology.topology import Topology
from webhook.manifest import SUFFIXES
from webhook.yamlfile import Document, FileError, load


class TopologyFilesError(Exception):
    """Files that cannot be used. The text has a line per mistake: file, line, place, what was found."""


def read(paths: Iterable[str]) -> list[Topology]:
    """The topologies in files, and in directories with all below. Raises TopologyFilesError."""
    found: list[Topology] = []
    problems: list[str] = []
    for path in paths:
        try:
            files = list(_files(path))
        except OSError as error:
            problems.append(f"{error.filename}: cannot be read: {error.strerror}")
            continue
        for file in files:
            _read(file, found, problems)
    if problems:
        raise TopologyFilesError("\n".join(problems))
    return found


def _files(path: str) -> Iterator[Path]:
    """The files below a directory, by name. Raises OSError.

    What begins with a dot is left out: in a mounted ConfigMap such directories hold the same files a second time.
    """
    if not Path(path).is_dir():
        yield Path(path)
        return
    for directory, below, names in os.walk(path, onerror=_raised):
        below[:] = sorted(name for name in below if not name.startswith("."))
        yield from (
            Path(directory, name) for name in sorted(names) if name.endswith(SUFFIXES) and not name.startswith(".")
        )


def _raised(error: OSError) -> NoReturn:
    """What cannot be listed is not empty."""
    raise error


def _read(file: Path, found: list[Topology], problems: list[str]) -> None:
    """Add what is in a file to the topologies, and what is wrong there to the problems."""
    name = str(file)
    try:
        documents = load(name, file.read_bytes())
    except OSError as error:
        problems.append(f"{name}: cannot be read: {error.strerror}")
        return
    except FileError as error:
        problems.append(str(error))
        return
    for document in documents:
        for place, value in _parts(document):
            try:
                found.append(topology(value, f"{name}:{document.line(place)}"))
            except TopologyError as error:
                problems += [
                    f"{name}:{document.line(where)}: {TopologyError([(where, problem)])}"
                    for where, problem in ((place + at, problem) for at, problem in error.problems)
                ]


def _parts(document: Document) -> Iterator[tuple[Location, Any]]:
    """The document, or the items of a List such as `kubectl get` prints, each with its place."""
    items = document.value.get("items") if isinstance(document.value, dict) else None
    if isinstance(items, list) and str(document.value.get("kind", "")).endswith("List"):
        yield from ((("items", index), item) for index, item in enumerate(items))
    else:
        yield (), document.value
