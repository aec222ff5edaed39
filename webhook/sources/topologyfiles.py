"""Reads topologies from files, in the formats of KAI, of Kueue and of Run:ai's API."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from policies.topology.objects import TopologyError
from policies.topology.objects import read as topology
from policies.topology.topology import Topology
from webhook.files.manifest import followed
from webhook.files.yamlfile import FileError, content, load


def read(paths: Iterable[str]) -> list[Topology]:
    """The topologies in files, and in directories recursively. Raises FileError."""
    topologies: list[Topology] = []
    problems: list[str] = []
    for path in paths:
        try:
            files = list(followed(path))
        except OSError as error:
            problems.append(f"{error.filename}: cannot be read: {error.strerror}")
            continue
        for file in files:
            _read(file, topologies, problems)
    if problems:
        raise FileError("\n".join(problems))
    return topologies


def version(paths: Iterable[str]) -> str:
    """A string that changes only if the contents of the files change, or the reason why they cannot be read."""
    digest = hashlib.sha256()
    for path in paths:
        try:
            for file in followed(path):
                digest.update(f"{file}\n{hashlib.sha256(content(file)).hexdigest()}\n".encode())
        except OSError as error:
            digest.update(f"{error}\n".encode())
    return digest.hexdigest()


def _read(file: Path, topologies: list[Topology], problems: list[str]) -> None:
    """Add the contents of a file to `topologies`, and its mistakes to `problems`."""
    name = str(file)
    try:
        documents = load(name, content(file))
    except OSError as error:
        problems.append(f"{name}: cannot be read: {error.strerror}")
        return
    except FileError as error:
        problems.append(str(error))
        return
    for document in documents:
        for place, value in document.parts():
            try:
                topologies.append(topology(value, f"{name}:{document.line(place)}"))
            except TopologyError as error:
                problems += [
                    f"{name}:{document.line(where)}: {TopologyError([(where, problem)])}"
                    for where, problem in ((place + at, problem) for at, problem in error.problems)
                ]
