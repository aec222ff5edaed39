"""Files with topologies, in the forms of KAI, of Kueue and of Run:ai's API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from policies.topology.document import TopologyError
from policies.topology.document import read as topology
from policies.topology.topology import Topology
from webhook.manifest import SUFFIXES
from webhook.yamlfile import FileError, load


class TopologyFilesError(Exception):
    """Files that cannot be used. The text has a line per mistake: file, line, place, what was found."""


def read(paths: Iterable[str]) -> list[Topology]:
    """The topologies in files, and in directories with all below. Raises TopologyFilesError."""
    found, problems = [], []
    for name, text in _texts(paths):
        try:
            documents = load(name, text)
        except FileError as error:
            problems.append(str(error))
            continue
        for document in documents:
            where = f"{name}:{document.line()}"
            try:
                found.append(topology(document.value, where))
            except TopologyError as error:
                problems += [
                    f"{name}:{document.line(at)}: {TopologyError([(at, problem)])}" for at, problem in error.problems
                ]
    if problems:
        raise TopologyFilesError("\n".join(problems))
    return found


def _texts(paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Names and contents. Raises TopologyFilesError."""
    for path in map(Path, paths):
        files = sorted(p for p in path.rglob("*") if p.suffix in SUFFIXES and p.is_file()) if path.is_dir() else [path]
        for file in files:
            try:
                yield str(file), file.read_bytes()
            except OSError as error:
                raise TopologyFilesError(f"{file}: cannot be read: {error.strerror}") from None
