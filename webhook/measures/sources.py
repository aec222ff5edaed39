"""What the values of metrics are read from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from policies.kubernetes.release import Release


class Watches(Protocol):
    """What follows the cluster."""

    def ages(self) -> Mapping[str, float]:
        """Seconds since the last proof that what is known is up to date, by kind of object."""

    def silence(self) -> float:
        """Seconds since the last answer of the API server."""


class Kubernetes(Protocol):
    """The API server beside which the process runs.

    current: the release as which policies are judged. version: empty until it is known.
    """

    current: Release
    version: str

    @property
    def is_proven(self) -> bool:
        """Whether it is proven that policies are judged as by this API server."""


class Inventory(Protocol):
    """The Nodes and Pods from which domains are chosen."""

    def age(self) -> float:
        """Seconds since the last proof that all of it is up to date."""

    def sizes(self) -> Mapping[str, int]:
        """How much it holds, by kind."""


class Log(Protocol):
    """Where log lines go."""

    def take_lost(self) -> int:
        """How many lines were lost since this was last called."""


class Sending(Protocol):
    """Where records of decisions or traces go."""

    def take(self) -> tuple[int, int]:
        """How many were written or sent, and how many lost, since this was last called."""
