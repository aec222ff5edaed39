"""What an audit finds: one record for each policy, object and path."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

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
