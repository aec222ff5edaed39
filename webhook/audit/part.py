"""The part of a cluster that one of several audits judges."""

from __future__ import annotations

from zlib import crc32

from msgspec import Struct

from policies.engine.request import AdmissionRequest


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
