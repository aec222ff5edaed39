"""Reads topologies from files, in the formats of KAI, of Kueue and of Run:ai's API."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

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
        for name, file in ((str(file), file) for file in files):
            try:
                documents = load(name, content(file))
            except OSError as error:
                problems.append(f"{name}: cannot be read: {error.strerror}")
                continue
            except FileError as error:
                problems.append(str(error))
                continue
            for document, (place, value) in ((one, part) for one in documents for part in one.parts()):
                try:
                    topologies.append(topology(value, f"{name}:{document.line(place)}"))
                except TopologyError as error:
                    lines = ((document.line(place + at), (place + at, problem)) for at, problem in error.problems)
                    problems += [f"{name}:{line}: {TopologyError([problem])}" for line, problem in lines]
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
