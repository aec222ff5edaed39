"""What a look at the gangs decides, for whoever carries it out and tells people."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from policies.topology.placer.opening import Opening


class Subject(Struct, frozen=True):
    """The object that an Event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


class Placed(Struct, frozen=True):
    """A gang that this look opens. seconds: since its last Pod."""

    about: Subject
    message: str
    seconds: float
    level: str
    pods: int


class Waiting(Struct, frozen=True):
    """A gang that waits. reason: a sentence for people. since: seconds since the epoch. existing: of its Pods.

    position: its place in the queue, from 1. behind: the gang before it in words. kept: the domain that is kept free
    for it. overdue: whether it waits for longer than patience although there was room.
    """

    about: Subject
    reason: str
    since: float
    level: str
    required: bool
    pods: int
    existing: int
    position: int = 0
    behind: str = ""
    kept: str = ""
    overdue: bool = False


class Notice(Struct, frozen=True):
    """Something else that people should know."""

    about: Subject
    reason: Literal["DomainLost", "Stuck", "OutsideDomain"]
    message: str


class Look(Struct, frozen=True):
    """What was decided. wake: seconds since the epoch at which to look again; inf for only after a change."""

    openings: tuple[Opening, ...] = ()
    placed: tuple[Placed, ...] = ()
    queue: tuple[Waiting, ...] = ()
    notices: tuple[Notice, ...] = ()
    wake: float = float("inf")
