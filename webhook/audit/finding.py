"""What an audit finds: one record for each policy, object and path."""

from __future__ import annotations

from typing import Literal
from zlib import crc32

from msgspec import Struct

from policies.engine.request import AdmissionRequest, mapping

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
