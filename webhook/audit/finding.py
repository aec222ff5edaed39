"""What an audit finds: one finding for each policy, object and path; whose the objects are; a record in numbers."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final, Literal, NamedTuple
from zlib import crc32

import msgspec
from msgspec import Struct

from policies.engine.request import AdmissionRequest, JsonObject, Owner, controller, mapping

Verdict = Literal["deny", "warn", "audit", "error", "mutate", "exempt"]
"""What admission would do today: refuse, warn, write an audit annotation, fail, change the object, or let it pass by an
exception."""


class Scope(Struct, frozen=True):
    """The object that a report is about. namespace: empty for cluster-wide kinds, and Namespaces are among them."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


class Subject(Struct, frozen=True):
    """The object that was judged. uid: empty for one from a file. namespace: empty for cluster-wide kinds.

    workload: kind and name of its topmost owner that is known, such as `Deployment/web`; itself if nothing owns it.
    scope: the topmost owner that exists in its Namespace, or itself; None if nobody asked.
    """

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""
    workload: str = ""
    scope: Scope | None = None


class Finding(Struct, frozen=True):
    """What a policy says to an object at a path. until: when an exception ends, in RFC 3339; empty if never."""

    subject: Subject
    policy: str
    verdict: Verdict
    path: str
    message: str
    remedy: str = ""
    until: str = ""


def subject(request: AdmissionRequest) -> Subject:
    """The subject of a request. Its workload is the object itself until its owners are known."""
    kind, metadata = request.kind, mapping(request.object, "metadata")
    version = f"{kind.group}/{kind.version}" if kind.group else kind.version
    name = request.display_name
    return Subject(
        version, kind.kind, request.scope_namespace, name, str(metadata.get("uid") or ""), f"{kind.kind}/{name}"
    )


class Part(Struct, frozen=True):
    """One of so many parts, by its index from 0. Every object is in one of them, and stays there.

    A Namespace is in one part with all that is in it, so that whoever owns an object is in the same one; of what is in
    no Namespace each object stands for itself.
    """

    index: int = 0
    count: int = 1

    def has(self, place: str) -> bool:
        """Whether it has what is in a Namespace, or an object in none, by its name."""
        return crc32(place.encode()) % self.count == self.index

    def judges(self, request: AdmissionRequest) -> bool:
        """Whether it has the object of a request."""
        return self.count == 1 or self.has(request.scope_namespace or request.name)

    def __str__(self) -> str:
        """As it is given on the command line."""
        return f"{self.index}/{self.count}"


WHOLE = Part()


class AuditError(Exception):
    """What is asked for cannot be audited, reported or shown; the text says why."""


class Judged(Struct, frozen=True):
    """An object that was judged, with what is found; its workload is looked up only if there is something."""

    subject: Subject
    findings: tuple[Finding, ...] = ()


REMEMBERED: Final = 10_000
"""Owners that are remembered; of more, those that were not asked about for longest are forgotten."""
_DEEPEST: Final = 8

Read = Callable[[Owner, str], Awaitable[JsonObject | None]]
"""Returns the metadata of an owner of what is in a Namespace; None if it is not known. May raise ClusterError."""


class _Known(NamedTuple):
    """An object that exists. namespace: empty for cluster-wide kinds. above: who owns it."""

    namespace: str
    above: Owner | None


class Owners:
    """Remembers objects that may own others. read: reads one that is not remembered; None if nobody can.

    They are remembered by their Namespace and all of a reference, since whoever makes an object can write a false one.
    """

    def __init__(self, read: Read | None = None) -> None:
        self._read = read
        self._known: OrderedDict[tuple[str, Owner], _Known | None] = OrderedDict()

    def remember(self, obj: JsonObject) -> None:
        """Remember an object as a possible owner. Pods own nothing that anybody audits."""
        metadata = mapping(obj, "metadata")
        uid = metadata.get("uid")
        if isinstance(uid, str) and obj.get("kind") != "Pod":
            known = _known(obj)
            owner = Owner(str(obj.get("apiVersion")), str(obj.get("kind")), str(metadata.get("name")), uid)
            self._keep((known.namespace, owner), known)

    async def topmost(self, request: AdmissionRequest) -> tuple[str, Scope]:
        """Kind and name of the topmost owner that is named, or of the object itself, and what a report is about.

        That is the topmost owner which is known to exist in the object's Namespace. Kubernetes removes what owners in
        other Namespaces own, or owners that are gone; what is cluster-wide stands for itself.
        """
        about = subject(request)
        name = about.workload
        namespace = str(mapping(request.object, "metadata").get("namespace") or "")
        scope = Scope(about.api_version, about.kind, namespace, about.name, about.uid)
        async for owner, known in self._chain(controller(request.object), request.scope_namespace):
            name = f"{owner.kind}/{owner.name}"
            if known is not None and known.namespace and known.namespace == namespace:
                scope = Scope(owner.api_version, owner.kind, namespace, owner.name, owner.uid)
        return name, scope

    async def top(self, namespace: str, owner: Owner) -> Owner:
        """The topmost owner that is named above an owner in a Namespace, or the owner itself."""
        async for above, _ in self._chain(owner, namespace):
            owner = above
        return owner

    async def _chain(self, owner: Owner | None, namespace: str) -> AsyncIterator[tuple[Owner, _Known | None]]:
        for _ in range(_DEEPEST):
            if owner is None:
                return
            known = await self._of(owner, namespace)
            yield owner, known
            owner = known.above if known is not None else None

    async def _of(self, owner: Owner, namespace: str) -> _Known | None:
        """What is known of an owner; None if nothing is, or another object has its name by now."""
        for key in ((namespace, owner), ("", owner)):
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        if self._read is None:
            return None
        obj = await self._read(owner, namespace)
        known = _known(obj) if obj is not None and mapping(obj, "metadata").get("uid") == owner.uid else None
        self._keep((namespace, owner), known)
        return known

    def _keep(self, key: tuple[str, Owner], known: _Known | None) -> None:
        self._known[key] = known
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)


def _known(obj: JsonObject) -> _Known:
    return _Known(str(mapping(obj, "metadata").get("namespace") or ""), controller(obj))


MOST: Final = 100
"""Policies in a record: those by which most objects were found."""


class Record(Struct, frozen=True):
    """What one audit, or one part of it, did. ended: Unix time.

    unreadable: kinds of which not all objects could be read. verdicts: objects with such a finding. findings: the same
    by policy. reports: how many were written, unchanged, removed, and refused by the API server. events: how many about
    them were written, omitted as too many, and failed.
    """

    shard: str
    api: str
    ended: int
    seconds: float
    objects: int
    unreadable: int
    verdicts: Mapping[str, int]
    findings: Mapping[str, Mapping[str, int]]
    reports: Mapping[str, int]
    events: Mapping[str, int]

    @property
    def parts(self) -> str:
        """Of how many parts this is one."""
        return self.shard.partition("/")[2]

    @property
    def key(self) -> str:
        """By what it is kept beside those of the other parts."""
        return self.shard.partition("/")[0]


_RECORD: Final = msgspec.json.Decoder(Record)


def count(counts: Counter[str], judged: Judged) -> None:
    """Count an object, and its verdicts, each once."""
    counts["objects"] += 1
    counts.update({finding.verdict for finding in judged.findings})


def count_policies(counts: Counter[tuple[str, str]], judged: Judged) -> None:
    """Count an object by each policy and verdict, once, however many places the policy names."""
    counts.update({(finding.policy, finding.verdict) for finding in judged.findings})


def by_policy(counts: Mapping[tuple[str, str], int]) -> dict[str, dict[str, int]]:
    """Objects by policy and verdict, for the policies with the most, these first. counts: by both."""
    totals: Counter[str] = Counter()
    for (policy, _), objects in counts.items():
        totals[policy] += objects
    chosen: dict[str, dict[str, int]] = {policy: {} for policy, _ in totals.most_common(MOST)}
    for (policy, verdict), objects in sorted(counts.items()):
        if policy in chosen:
            chosen[policy][verdict] = objects
    return chosen


def newest(texts: Mapping[str, str]) -> list[Record]:
    """The records of the parts of the newest audit, by the texts that were kept. Raises AuditError.

    An audit in fewer parts than the one before leaves the records of those that are no more.
    """
    records = []
    for key, text in sorted(texts.items()):
        try:
            records.append(_RECORD.decode(text))
        except (msgspec.MsgspecError, RecursionError) as error:
            raise AuditError(f"data[{key!r}] is no record of an audit: {error}") from None
    parts = max(records, key=lambda record: record.ended).parts if records else ""
    return [record for record in records if record.parts == parts]
