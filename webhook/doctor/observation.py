"""What was read of an installation, and what is said of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from cryptography.x509 import Certificate
from msgspec import Struct

from policies.engine.request import AdmissionRequest, JsonObject, UserInfo
from policies.labelpolicy import LabelWriter
from policies.rbac import Rights
from policies.topology.nodes.tree import Machine
from policies.topology.topology import Topology
from webhook.cluster.placer.gates import GatedPod
from webhook.registration.rights import Right

Level = Literal["ok", "warning", "problem", "unknown"]
T = TypeVar("T")


class Diagnosis(Struct, frozen=True):
    """One thing that was checked.

    check: the name of the check. level: `unknown` if it could not be read. where: the object or place.
    found: its state, as a sentence without a full stop. remedy: what to do; empty if there is nothing to do.
    """

    check: str
    level: Level
    where: str
    found: str
    remedy: str = ""


class Unread(Struct, frozen=True):
    """Something that could not be read. right: the missing right, such as `list nodes`; empty for other reasons."""

    reason: str = ""
    right: str = ""


Read: TypeAlias = T | Unread
"""What was read, or why it could not be read."""


class Check(NamedTuple):
    """A check by its name, and its diagnoses."""

    name: str

    def ok(self, where: str, found: str) -> Diagnosis:
        """Nothing is to be done."""
        return Diagnosis(self.name, "ok", where, found)

    def warn(self, where: str, found: str, remedy: str) -> Diagnosis:
        """Something that may do harm."""
        return Diagnosis(self.name, "warning", where, found, remedy)

    def problem(self, where: str, found: str, remedy: str) -> Diagnosis:
        """Something that does not work."""
        return Diagnosis(self.name, "problem", where, found, remedy)

    def unknown(self, where: str, found: str, remedy: str = "") -> Diagnosis:
        """Something that cannot be told."""
        return Diagnosis(self.name, "unknown", where, found, remedy)

    def unread(self, where: str, unread: Unread) -> Diagnosis:
        """Something that could not be read."""
        if unread.right:
            text = f"not checked: the current account may not {unread.right}"
            return self.unknown(where, text, f"use an account that may {unread.right}")
        return self.unknown(where, f"not checked: {unread.reason}", "try again")


def count(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: `1 entry`, `2 entries`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def entries(configuration: Read[JsonObject | None]) -> list[JsonObject]:
    """The entries of a webhook configuration, none where it was not read."""
    if isinstance(configuration, Unread) or configuration is None:
        return []
    return list(configuration.get("webhooks") or ())


class Endpoint(Struct, frozen=True):
    """An address of the service. name: the name that the API server calls; the certificate must be valid for it."""

    name: str
    host: str
    port: int

    @property
    def where(self) -> str:
        """The address for people."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ShownChain(Struct, frozen=True):
    """The certificates served at an address, leaf first."""

    target: Endpoint
    chain: Read[tuple[Certificate, ...]]


class Probe(Struct, frozen=True):
    """The API server's answer to an object with a reserved label. status: the HTTP status."""

    namespace: str
    status: int
    message: str = ""


class PolicySource(Struct, frozen=True):
    """A ConfigMap with policies. refused: what the service's annotation on it says, empty if there is none."""

    data: Mapping[str, str]
    refused: str = ""


class TopologyObjects(Struct, frozen=True):
    """Topologies that are objects of the cluster. problems: a line for each that cannot be used or read."""

    found: tuple[Topology, ...] = ()
    problems: tuple[str, ...] = ()


class Component(Struct, frozen=True):
    """A workload that Nodes or the cluster may need to come up. pod: the request that creates one of its Pods."""

    kind: str
    namespace: str
    name: str
    pod: AdmissionRequest


class PlacerState(Struct, frozen=True):
    """What was read about the placer.

    absence: why nobody opens gates, with the remedy; empty if somebody does. fence: the policy and its binding by kind,
    None if one does not exist; they have the name of the Lease.
    """

    absence: Read[str]
    gated: Read[Sequence[GatedPod]]
    fence: Mapping[str, Read[JsonObject | None]] = {}


class InstallationState(Struct, frozen=True):
    """Everything that was read. None means that an object does not exist.

    In the Namespace of the service. maps: ConfigMaps with policies, by name. secret: the data of the Secret with the
    CA. leaf: of that with the certificate which manage makes for replicas.

    In the cluster. version: such as `v1.36.3`. groups: the served API groups, with their versions. own: the webhook
    configurations of the service, by kind. others: all other webhook configurations. namespaces: labels by name.
    natives: the cluster's own policies by name, those with derived rules with their bindings, the others empty.
    label_writers: what can write labels without the guard being asked, without what the settings trust. components:
    DaemonSets and Deployments in the Nodes' network or with a priority of the system.

    Of the inquiry. asked_for: the user whose rights were checked, in answers. is_service: whether that is the service's
    account. probe: None if none was sent. placer: None if nobody is to open gates.
    """

    service: Read[JsonObject | None]
    slices: Read[Sequence[JsonObject]]
    deployments: Read[Sequence[JsonObject]]
    pods: Read[Sequence[JsonObject]]
    lease: Read[JsonObject | None]
    secret: Read[Mapping[str, bytes] | None]
    leaf: Read[Mapping[str, bytes] | None]
    maps: Read[Mapping[str, PolicySource]]
    user: Read[UserInfo]
    version: str
    groups: Read[Mapping[str, tuple[str, ...]]]
    own: Mapping[str, Read[JsonObject | None]]
    others: Read[Sequence[JsonObject]]
    namespaces: Read[Mapping[str, Mapping[str, str]]]
    natives: Read[Mapping[str, list[JsonObject]]]
    machines: Read[Sequence[Machine]]
    topologies: Read[TopologyObjects]
    label_writers: Read[Sequence[LabelWriter]]
    rights: Read[Rights | None]
    components: Read[Sequence[Component]]
    served: Sequence[ShownChain]
    asked_for: str
    is_service: bool
    answers: Mapping[Right, Read[bool]]
    probe: Read[Probe] | None
    placer: PlacerState | None
