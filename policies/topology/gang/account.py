"""What workloads and Pods record of themselves, as far as their own terms bear it out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec
from msgspec import Struct

from policies.engine.request import JsonObject, is_being_deleted, mapping
from policies.objects.fieldpath import render
from policies.objects.workload import Workload
from policies.topology.affinity import NOTHING, RECORD, Record, RecordEntry, node_affinity, read_record, without_terms
from policies.topology.gang.address import Address
from policies.topology.gang.demand import Cluster, member
from policies.topology.gang.evidence import is_true
from policies.topology.gang.gang import GangKey, Member
from policies.topology.gang.lifetime import Life, Sign, conditions, life, seconds
from policies.topology.gang.membership import LEADER, LEADER_WORKER_SET, Membership, identity, role
from policies.topology.gang.podcount import completions, podcount, successes
from policies.topology.gang.size import excess

POD = ("", "Pod")
# They have no Pods of their own: what is made from them has, later, and may be any number.
_PATTERNS = frozenset(
    {("batch", "CronJob"), *(("trainer.kubeflow.org", f"{name}TrainingRuntime") for name in ("", "Cluster"))}
)
# Kinds whose Pods have the affinity of the template, which may change while there are Pods with an earlier one.
_REVISED = frozenset(
    {
        *(("", "ReplicationController"), ("argoproj.io", "Rollout")),
        *(("apps", kind) for kind in ("Deployment", "ReplicaSet", "StatefulSet")),
    }
)

State = Literal["unbound", "bound", "done"]


class Share(Struct, frozen=True):
    """What the Pods of a workload's template are promised.

    role: tells them from those of other templates, and of this one with another affinity. member: all of them. total:
    after how many successes there are no more of them, None if they are always replaced. done: those that its status
    tells of. address: where; empty in a LeaderWorkerSet, in which each replica has its own domain.
    """

    role: str
    member: Member
    total: int | None = None
    done: int = 0
    address: Address = ()


class Account(Struct, frozen=True):
    """A workload that is promised something."""

    life: Life
    shares: tuple[Share, ...]


class Seat(Struct, frozen=True, gc=False):
    """A Pod of a gang. role: as of a Share; empty if it is not known. state: done if the Pod has succeeded.

    own: what its own record promises it, and where.
    """

    role: str
    state: State
    sign: Sign
    own: tuple[Address, Member] | None = None


def counts(obj: JsonObject) -> bool:
    """Whether anything can be promised to a workload: it has a record, or its replicas' leaders may have."""
    key = identity(obj)
    has_record = RECORD in mapping(mapping(obj, "metadata"), "annotations")
    return has_record or (key.group, key.kind) == LEADER_WORKER_SET


def account(obj: JsonObject, key: GangKey, row: Workload, cluster: Cluster) -> Account | None:
    """What a workload is promised by its record, or could be by its leaders'; None if nothing.

    A workload that is too large for a choice has forged its record: its promise would cost each choice as much.
    """
    alive = None if row.group_kind in _PATTERNS else life(obj)
    if alive is None:
        return None
    shares = tuple(_shares(obj, key, row, cluster))
    is_small = not excess(share.member for share in shares)
    return Account(alive, shares) if shares and is_small else None


def seat(pod: JsonObject, belongs: Membership, cluster: Cluster, *, matters: bool) -> Seat | None:
    """What there is to know of a Pod; None if it neither takes nor is promised anything.

    matters: whether its workload may be promised something. Else it matters only by its own record. A Pod that failed
    is replaced, and so takes nothing.
    """
    phase, is_bound = mapping(pod, "status").get("phase"), bool(mapping(pod, "spec").get("nodeName"))
    if phase == "Failed" or (is_being_deleted(pod) and not is_bound):
        return None
    # In a replica those that are bound tell others where they belong; a worker does so until it is deleted.
    leads = bool(belongs.key.part) and (belongs.role == LEADER or not is_being_deleted(pod))
    own = _own(pod, belongs.key, cluster) if leads or not is_bound else None
    if own is None and not matters:
        return None
    ready = conditions(pod).get("Ready", {})
    sign = Sign(
        seconds(mapping(pod, "metadata").get("creationTimestamp")),
        seconds(ready.get("lastTransitionTime")) if ready.get("status") == "True" else 0.0,
        is_bound,
    )
    state: State = "done" if phase == "Succeeded" else "bound" if is_bound else "unbound"
    kind = (belongs.key.group, belongs.key.kind)
    return Seat(_role(kind, belongs.role, pod, _record(pod).get("", NOTHING)), state, sign, own)


def _shares(obj: JsonObject, key: GangKey, row: Workload, cluster: Cluster) -> Iterator[Share]:
    """The shares of the templates whose record is true; of all templates of a LeaderWorkerSet."""
    kind, record = row.group_kind, _record(obj)
    for location, template in row.pods(obj):
        path = render(location)
        address = _address(template, record.get(path))
        count = podcount(kind, obj, location)
        if not count or not (address or kind == LEADER_WORKER_SET):
            continue
        demand = member(template, path, count, cluster, namespace=key.namespace)
        if isinstance(demand, Member):
            name = _role(kind, role(kind, obj, location), template, NOTHING)
            yield Share(name, demand, completions(kind, obj, location), successes(kind, obj, location), address)


def _role(kind: tuple[str, str], name: str, template: JsonObject, entry: RecordEntry) -> str:
    """The role of a Pod or a template; empty if only a part of the Pod is told, for then its affinity is not known.

    entry: what was written into it only, and not into what it was made from.
    """
    spec = mapping(template, "spec")
    if kind not in _REVISED or not ("affinity" in spec or "containers" in spec):
        return name
    affinity = node_affinity(without_terms(spec.get("affinity"), entry))
    return f"{hash(msgspec.json.encode(affinity, order='sorted')):x}"


def _own(pod: JsonObject, key: GangKey, cluster: Cluster) -> tuple[Address, Member] | None:
    address = _address(pod, _record(pod).get(""))
    demand = member(pod, "", 1, cluster, namespace=key.namespace) if address else None
    return (address, demand) if isinstance(demand, Member) and not excess((demand,)) else None


def _record(obj: JsonObject) -> Record:
    """The record of an object; empty if there is none that can be read."""
    return read_record(mapping(mapping(obj, "metadata"), "annotations").get(RECORD)) or {}


def _address(template: JsonObject, entry: RecordEntry | None) -> Address:
    """The recorded domain of a template; empty if its terms do not lead there."""
    affinity = mapping(template, "spec").get("affinity")
    return entry.domain if entry is not None and is_true(entry, affinity) else ()
