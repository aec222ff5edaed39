"""The placer: it knows Nodes, Pods and roots, and decides which gangs start now and where each Pod belongs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct

from policies.engine.facts import Facts
from policies.engine.request import JsonObject
from policies.objects.accelerator import Accelerators
from policies.objects.workload import Workload
from policies.topology.catalog import Catalog
from policies.topology.nodes.manifest import NodeManifest, PodManifest

ROOT_KINDS: Final[frozenset[tuple[str, str]]] = frozenset()


class Options(Struct, frozen=True):
    """What an operator can set. settle, patience: seconds; see topology.settleSeconds and topology.patienceSeconds."""

    workloads: Mapping[tuple[str, str], Workload]
    facts: Facts
    accelerators: Accelerators = Accelerators()
    settle: float = 2.0
    patience: float = 900.0


class Subject(Struct, frozen=True):
    """The object that an Event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


class Opening(Struct, frozen=True):
    """A Pod whose gate is to be opened. patch: a JSON Patch with tests of its uid and of the gate."""

    namespace: str
    name: str
    uid: str
    patch: tuple[JsonObject, ...]


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
    position: int
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


class Placer:
    """The state is made of what was put; whoever puts the same comes to the same decisions."""

    def __init__(self, options: Options) -> None:
        self.options = options

    def put_catalog(self, catalog: Catalog) -> None:
        """Take the topologies as they are now."""

    def put_node(self, node: NodeManifest) -> None:
        """Take a Node as it is now. Raises ValueError for a malformed amount."""

    def remove_node(self, name: str) -> None:
        """Forget a Node."""

    def put_pod(self, pod: PodManifest, content: JsonObject | None) -> None:
        """Take a Pod as it is now. content: the whole Pod if it has a placement, else None. Raises ValueError."""

    def remove_pod(self, namespace: str, name: str) -> None:
        """Forget a Pod."""

    def put_root(self, obj: JsonObject) -> None:
        """Take a workload as it is now."""

    def remove_root(self, group: str, kind: str, namespace: str, name: str) -> None:
        """Forget a workload."""

    def look(self, now: float) -> Look:
        """What is to be done now. It counts on its openings being carried out. now: seconds since the epoch."""
        raise NotImplementedError(now)

    def failed(self, opening: Opening) -> None:
        """Take back an opening that was not carried out."""
