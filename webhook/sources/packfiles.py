"""The packs as they are shipped: a folder for each, in it one for each subject, with the policies about it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import policies
from webhook.files import yamlfile

PACKS = Path(policies.__file__).parent / "packs"


class PackFile(NamedTuple):
    """The policies about one subject. name: as people see it, wherever the package is installed."""

    subject: str
    name: str
    text: str


class Names(NamedTuple):
    """What settings may name: the policies of a pack with their subjects, and its parameters."""

    policies: Mapping[str, str]
    parameters: tuple[str, ...]

    @property
    def switches(self) -> tuple[str, ...]:
        """What has a mode of its own: subjects and policies."""
        return tuple(dict.fromkeys((*self.policies.values(), *self.policies)))


@cache
def files(pack: str) -> tuple[PackFile, ...]:
    """The files of a pack, in the order of their subjects."""
    return tuple(
        PackFile(path.parent.name, path.relative_to(PACKS.parents[1]).as_posix(), path.read_text(encoding="utf-8"))
        for path in sorted((PACKS / pack).glob("*/policy.yaml"))
    )


@cache
def names(pack: str) -> Names:
    """The names of a pack."""
    known: dict[str, str] = {}
    parameters: list[str] = []
    for file in files(pack):
        for value in (document.value for document in yamlfile.load(file.name, file.text)):
            if value["kind"].endswith("AdmissionPolicy"):
                known[value["metadata"]["name"]] = file.subject
            elif value["kind"] == "ConfigMap":
                parameters += value["data"]
    return Names(known, tuple(dict.fromkeys(parameters)))
