"""Policies that kube-apiserver enforces, and that also request rules for pod templates."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from policies.admissionpolicy.documents.document import Document
from policies.admissionpolicy.documents.reader import Loaded, Part, parts, together
from policies.cel.dialect import Dialect
from policies.engine.request import JsonObject
from policies.kubernetes.release import NEWEST, Release

if TYPE_CHECKING:
    from webhook.cluster.watches.nativepolicies import NativePolicies


Parsed = Mapping[tuple[str, str], tuple[Part, ...]]
"""The parts of each object, by its name and version."""


class Natives:
    """The cluster's own policies that request derived rules."""

    def __init__(self, policies: NativePolicies) -> None:
        self._policies = policies
        self._cache: Parsed = {}

    def read(self, release: Release) -> Native:
        """The current policies as an API server of a release has them, without those that cannot be used here.

        kube-apiserver still enforces these.
        """
        native, self._cache = load(self._policies.known, self._cache, release)
        return native

    async def changes(self) -> AsyncIterator[None]:
        """Yield after each change."""
        while True:
            await self._policies.changed.wait()
            self._policies.changed.clear()
            yield


class Native(NamedTuple):
    """The policies with their bindings, the problems of others, and the names of all policies of the cluster."""

    version: str = ""
    loaded: Loaded = Loaded()
    problems: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


def load(
    policies: Mapping[str, Sequence[JsonObject]], known: Parsed, release: Release = NEWEST
) -> tuple[Native, Parsed]:
    """The usable policies, and the parsed objects. known: objects that were parsed before, which are reused.

    policies: by name; a policy that does not request rules without its objects. release: that of the API server.
    """
    usable: list[Part] = []
    problems: list[str] = []
    parsed: dict[tuple[str, str], tuple[Part, ...]] = {}
    version = hashlib.sha256(release.name.encode())
    for name, documents in policies.items():
        version.update(repr(name).encode())
        group: list[Part] = []
        for value in documents:
            metadata = value["metadata"]
            # The generation does not count changes to annotations.
            revision = metadata.get("uid"), metadata.get("generation"), metadata.get("annotations"), release.name
            key = f"{value['kind']} {metadata['name']}", repr(revision)
            version.update(repr(key).encode())
            parsed[key] = known.get(key) or _parts(value, key[0], release)
            group += parsed[key]
        if errors := together(group).errors:
            problems.append(f"no rules for {name}: {'; '.join(error.text for error in errors)}")
        else:
            usable += group
    return Native(version.hexdigest(), together(usable), tuple(problems), tuple(policies)), parsed


def _parts(value: JsonObject, name: str, release: Release) -> tuple[Part, ...]:
    """The parts of an object, which has no lines. It is stored already, so that it may use what a new one may not."""
    return parts(Document(value=value, name=name, places=lambda _: (1, 1)), Dialect(release, stored=True))
