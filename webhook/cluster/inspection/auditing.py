"""An audit of a live cluster: its rules and facts, what it lists, and its objects one after the other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Final, NamedTuple, get_args

from msgspec import Struct

from policies import labels
from policies.admissionpolicy.documents.reader import Loaded
from policies.engine.request import JsonObject, Owner
from policies.engine.rule import Rule, RuleSet
from policies.kubernetes.release import Release
from policies.kubernetes.spelling import closest
from webhook.audit.audit import Audit, audit_rules, creation
from webhook.audit.finding import WHOLE, AuditError, Judged, Owners, Part
from webhook.cluster.api.call import Connection
from webhook.cluster.api.discovery import ServedResource, served
from webhook.cluster.facts.facts import ClusterFacts
from webhook.cluster.inspection.listing import Form, Lister, served_policies
from webhook.cluster.watches.cluster import Followed, follow
from webhook.cluster.watches.policies import joined
from webhook.configuration import rules
from webhook.configuration.settings import Settings
from webhook.registration.resources import ADMISSION
from webhook.sources import policyset
from webhook.sources.policyfiles import PolicyFiles
from webhook.sources.policyset import Directories

# Two names of the same objects; the first is the one that is listed.
_TWICE: Final = {("events.k8s.io", "events"): ("", "events")}


class Unit(Struct, frozen=True):
    """A list: a resource in a Namespace, empty for all. metadata: whether rules read nothing else."""

    resource: ServedResource
    namespace: str = ""
    metadata: bool = False

    @property
    def key(self) -> str:
        """Its path, which is its name."""
        return self.resource.path(self.namespace)


def units(
    served: Sequence[ServedResource],
    ruleset: RuleSet,
    workloads: Collection[tuple[str, str]],
    namespaces: Sequence[str] = (),
    kinds: Sequence[str] = (),
) -> list[Unit]:
    """The lists, Pods last.

    workloads: the kinds with more labels than their own. namespaces: those whose objects are asked for; empty for all,
    and for what is in none. kinds: such as `Pod`, `pods`, `Deployment.apps`, `pods.v1.`; empty for all. Raises
    AuditError.
    """
    chosen = {_family(resource): resource for resource in reversed(served) if _rules(ruleset, resource)}
    if kinds:
        chosen = _named(kinds, served, chosen)
    found = [
        Unit(
            resource,
            namespace,
            (resource.resource.group, resource.kind) not in workloads
            and all(rule.name == labels.RULE for rule in _rules(ruleset, resource)),
        )
        for resource in chosen.values()
        if resource.namespaced or not namespaces
        for namespace in (tuple(dict.fromkeys(namespaces)) or ("",))
    ]
    return sorted(found, key=lambda unit: (unit.resource.kind == "Pod", unit.key))


def _family(resource: ServedResource) -> tuple[str, str]:
    """What all versions of a resource share."""
    target = resource.resource
    return _TWICE.get((target.group, target.resource), (target.group, target.resource))


def _rules(ruleset: RuleSet, resource: ServedResource) -> tuple[Rule, ...]:
    return (*ruleset.select("mutate", resource), *ruleset.select("validate", resource))


def _named(
    kinds: Sequence[str], served: Sequence[ServedResource], chosen: Mapping[tuple[str, str], ServedResource]
) -> dict[tuple[str, str], ServedResource]:
    found: dict[tuple[str, str], ServedResource] = {}
    for kind in kinds:
        families = {_family(resource) for resource in served if kind.lower() in _names(resource)}
        if not families:
            known = sorted({resource.kind for resource in served})
            meant = closest(kind, known)
            hint = f"; did you mean {meant}?" if meant else ""
            raise AuditError(f"--kind {kind}: the cluster has no kind of this name that can be created{hint}")
        found |= {family: chosen[family] for family in families & chosen.keys()}
    if not found:
        raise AuditError(f"--kind {', '.join(kinds)}: no rule or policy is about it")
    return found


def _names(resource: ServedResource) -> frozenset[str]:
    """How people call a resource, in lower case; the last is the only one that is no other's: `pods.v1.`."""
    plural, version = resource.resource.resource, resource.resource.version
    group = f".{resource.resource.group}" if resource.resource.group else ""
    names = (resource.kind, f"{resource.kind}{group}", plural, f"{plural}{group}", f"{plural}.{version}{group or '.'}")
    return frozenset(name.lower() for name in names)


_SYNC_SECONDS: Final = 30.0


class ClusterAudit(NamedTuple):
    """An audit of a cluster, or of a part of it.

    served: what it has. doubts: what cannot be judged as it should be, a line each.
    """

    audit: Audit
    lister: Lister
    served: tuple[ServedResource, ...]
    owners: Owners
    doubts: tuple[str, ...] = ()
    part: Part = WHOLE

    async def judged(self, unit: Unit) -> AsyncIterator[Judged]:
        """The objects of a list, judged. Raises ClusterError."""
        resource = unit.resource
        async for obj in self.lister.objects(resource, unit.namespace, metadata=unit.metadata):
            self.owners.remember(obj)
            request = creation(obj, resource.resource, namespaced=resource.namespaced)
            if self.part.judges(request):
                yield await self.audit.judged(request)


@asynccontextmanager
async def auditing(api: Connection, settings: Settings, qps: float, part: Part = WHOLE) -> AsyncIterator[ClusterAudit]:
    """An audit by the settings and by what the cluster has.

    qps: lists and look-ups of owners per second. Raises SettingsError and ClusterError.
    """
    maps_in = settings.cluster.namespace if settings.policies.config_maps else ""
    facts = ClusterFacts(
        api,
        watch_nodes=rules.follows_nodes(settings),
        watch_pools=settings.selectors.action != "off",
        watch_topologies=rules.follows_topologies(settings),
        workloads=rules.topology_options(settings).workloads,
    )
    async with follow(facts, maps_in=maps_in, release=settings.policies.release, seconds=_SYNC_SECONDS) as cluster:
        lister = Lister(api, qps)
        resources = tuple(await served(lister.answer))
        by_kind = {(resource.api_version, resource.kind): resource for resource in resources}

        async def read(owner: Owner, namespace: str) -> JsonObject | None:
            resource = by_kind.get((owner.api_version, owner.kind))
            return None if resource is None else await lister.metadata(resource, namespace, owner.name)

        owners = Owners(read)
        files, refused = await _files(settings, cluster)
        native = await _natives(lister, settings, files.release)
        made = audit_rules(settings, files, native.loaded)
        await cluster.facts.parameters.follow(made.parameters)
        audit = Audit(made, cluster.facts.known, cluster.facts.read, owners)
        doubts = (*refused, *native.problems, *made.doubts, *cluster.unsynced())
        yield ClusterAudit(audit, lister, resources, owners, doubts, part)


async def _files(settings: Settings, cluster: Followed) -> tuple[PolicyFiles, list[str]]:
    """The policies of files and ConfigMaps, and a line for each source that cannot be used."""
    release = cluster.release.current
    units = [*await Directories(settings.policies.directories).units(release)]
    if cluster.maps is not None:
        data = {name: policy_map.data for name, policy_map in cluster.maps.known.items()}
        units += policyset.configmap_units(cluster.maps.namespace, data, release)
    contents = await policyset.read(units, release)
    chosen = policyset.updated(policyset.EMPTY, contents, datetime.now(UTC).date(), rules.reserved(), release)
    return chosen.files, [f"{source} is not judged: {why}" for source, why in chosen.refused.items()]


async def _natives(lister: Lister, settings: Settings, release: Release) -> policyset.Native:
    if not settings.policies.native:
        return policyset.Native(loaded=Loaded())
    documents: dict[str, list[JsonObject]] = {}
    for form in get_args(Form):
        version, policies, bindings = await served_policies(lister.all, form)
        kind = f"{form.capitalize()}AdmissionPolicy"
        head = {"apiVersion": f"{ADMISSION}/{version}", "kind": kind}
        by_name = {policy["metadata"]["name"]: {**head, **policy} for policy in policies}
        documents |= {f"{kind} {name}": found for name, found in joined(by_name, bindings, head).items()}
    return await policyset.read_native(documents, release)
