"""The rights that the accounts of replicas and of manage need in the cluster, depending on the settings. Pure.

Operators grant them by RBAC; `cks-admission doctor` checks each of them with the API server.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from policies import nodepool
from policies.objects.workload import BUILT_IN, plural
from policies.topology.membership import ROOT_KINDS
from policies.topology.objects import KINDS, KUEUE
from policies.topology.way import GROUP
from webhook.audit.reports import FORMS
from webhook.configuration import roles, rules
from webhook.configuration.settings import Settings
from webhook.registration.resources import ADMISSION, CONFIGURATIONS, POLICIES

_FOLLOW = ("list", "watch")
_LEASES = "coordination.k8s.io"
_READ = ("get", *_FOLLOW)


class Right(Struct, frozen=True):
    """One verb on one resource.

    name: the only object for which it is needed; empty for all. namespace: empty for the whole cluster. reason: its
    purpose. vital: whether the service does less without it; otherwise it only reports less.
    """

    verb: str
    group: str
    resource: str
    subresource: str = ""
    name: str = ""
    namespace: str = ""
    reason: str = ""
    vital: bool = True


def needed(settings: Settings) -> list[Right]:
    """All rights that a replica with a cluster needs, without duplicates. Raises SettingsError for invalid settings.

    If manage runs apart, these are rights to read, and to create SubjectAccessReviews.
    """
    chosen = roles.of_replica(settings)
    rights = [*_facts(chosen), *_pools(chosen), *_topologies(chosen)]
    if roles.places(chosen):
        rights += _placer(chosen)
    elif chosen.topology.action != "off" and chosen.place.apart:
        lease, reason = chosen.place.lease, "readiness says whether there is a placer, for which gangs wait"
        rights += _rights("get", _LEASES, "leases", reason, name=lease, namespace=chosen.cluster.namespace, vital=False)
    if "off" not in (chosen.topology.action, chosen.topology.deletion):
        rights += _listed_workloads(chosen, "a warning lists the workloads that name a Topology object")
    rights += _gangs(chosen)
    if chosen.events.refusals:
        reason = "Events tell owners of workloads what their controllers were refused"
        rights += [*_listed_workloads(chosen, reason), *_rights("create", "", "events", reason, vital=False)]
    rights += _policies(chosen)
    if chosen.manage.apart:
        rights += _followed_registration(chosen)
    else:
        rights += _reports(chosen)
    if chosen.policies.native or chosen.policies.config_maps or chosen.policies.directories:
        rights += _rights("create", "authorization.k8s.io", "subjectaccessreviews", "policies may ask the authorizer")
    rights += _registration(chosen)
    if not chosen.manage.apart:
        rights += _shared(chosen)
    return _once(rights)


def needed_by_manager(settings: Settings) -> list[Right]:
    """All rights that manage needs, without duplicates. Raises SettingsError if it cannot run with these settings."""
    chosen = roles.of_manager(settings)
    writes = chosen.registration.writes
    paths = "replicas say which paths they answer"
    rights = [
        *_rights(_FOLLOW, "", "namespaces", "entries name the Namespaces of the control plane"),
        *_topologies(chosen),
        *_policies(chosen),
        *_rights(_FOLLOW, "", "pods", paths, namespace=chosen.cluster.namespace),
        *(_registration(chosen) if writes else _followed_registration(chosen)),
        *_shared(chosen),
        *_reports(chosen),
    ]
    if not writes and rules.schedules_workloads(chosen):
        reason = "replicas read in the webhook configuration what dry runs show"
        rights += _rights("patch", ADMISSION, "mutatingwebhookconfigurations", reason, name=chosen.registration.name)
    return _once(rights)


def needed_by_audit(settings: Settings) -> list[Right]:
    """All rights that an audit with reports needs beside those to read what it judges, without duplicates.

    Raises SettingsError for invalid settings.
    """
    chosen = roles.of_replica(settings)
    rights = [*_facts(chosen), *_pools(chosen), *_topologies(chosen), *_gangs(chosen)]
    if chosen.policies.native:
        policies = [f"{kind}admissionpolic{end}" for kind in ("validating", "mutating") for end in ("ies", "ybindings")]
        rights += _rights("list", ADMISSION, policies, "they are judged by")
    if chosen.policies.config_maps:
        rights += _rights(_FOLLOW, "", "configmaps", "policies may be there", namespace=chosen.cluster.namespace)
    rights += _record(chosen, "patch", "the audit records in this ConfigMap what it did")
    for form in FORMS:
        verbs, plurals = ("list", "create", "patch", "delete"), (form.plural, form.cluster_plural)
        rights += _rights(verbs, form.group, plurals, "the audit writes its findings into reports")
    if chosen.events.findings:
        rights += _rights("create", "", "events", "Events tell owners of workloads what an audit found", vital=False)
    return _once(rights)


def placer(settings: Settings) -> list[Right]:
    """All rights that a placer which runs apart needs, without duplicates."""
    return _once([*_facts(settings), *_topologies(settings), *_placer(settings)])


def _once(rights: Iterable[Right]) -> list[Right]:
    """Each right with the reason that comes first."""
    granted: dict[tuple[str, ...], Right] = {}
    for one in rights:
        granted.setdefault((one.verb, one.group, one.resource, one.name, one.namespace), one)
    return list(granted.values())


def _rights(
    verbs: str | Iterable[str],
    group: str,
    resources: str | Iterable[str],
    reason: str,
    *,
    name: str = "",
    namespace: str = "",
    vital: bool = True,
) -> list[Right]:
    verbs, resources = ([some] if isinstance(some, str) else list(some) for some in (verbs, resources))
    return [
        Right(verb, group, resource, name=name, namespace=namespace, reason=reason, vital=vital)
        for resource in resources
        for verb in verbs
    ]


def _leases(settings: Settings, name: str, reason: str) -> list[Right]:
    """The rights to hold a Lease. Authorization of a creation does not know the name."""
    namespace = settings.cluster.namespace
    return [
        *_rights("create", _LEASES, "leases", reason, namespace=namespace),
        *_rights(("get", "update"), _LEASES, "leases", reason, name=name, namespace=namespace),
    ]


def _record(settings: Settings, verb: str, reason: str) -> list[Right]:
    name, namespace = settings.audit.record, settings.cluster.namespace
    return _rights(verb, "", "configmaps", reason, name=name, namespace=namespace, vital=False) if name else []


def _facts(settings: Settings) -> list[Right]:
    devices = ("deviceclasses", "resourceclaims", "resourceclaimtemplates")
    nodes = "rules look at the labels and taints of Nodes"
    return [
        *_rights(_READ, "", "namespaces", "rules look at the labels of Namespaces"),
        *(_rights(_FOLLOW, "", "nodes", nodes) if rules.follows_nodes(settings) else ()),
        *_rights(_FOLLOW, "resource.k8s.io", devices, "device claims may make a Pod a GPU Pod"),
    ]


def _pools(settings: Settings) -> list[Right]:
    groups = () if settings.selectors.action == "off" else nodepool.VERSIONS
    reason = "selectors may be for Nodes that a pool would add"
    return [right for group in groups for right in _rights(_FOLLOW, group, plural(nodepool.KIND), reason, vital=False)]


def _topologies(settings: Settings) -> list[Right]:
    groups = {} if settings.topology.action == "off" else KINDS
    reason = "workloads may name topologies of the cluster"
    return [right for group, kinds in groups.items() for right in _rights(_FOLLOW, group, map(plural, kinds), reason)]


def _placer(settings: Settings) -> Iterator[Right]:
    if settings.topology.action == "off":
        return
    yield from _rights(_FOLLOW, "", ("nodes", "pods"), "gangs are placed by what Pods leave free on Nodes")
    yield from _rights("patch", "", "pods", "the gates of Pods are opened")
    reason = "Events tell owners of gangs where they start, and why they wait"
    yield from _rights("create", "", "events", reason, vital=False)
    yield from _rights("list", "", "events", "an Event names what a controller could not create", vital=False)
    reason = "Pods of lower priority may make room"
    yield from _rights(_FOLLOW, "scheduling.k8s.io", "priorityclasses", reason, vital=False)
    built_in = {row.group_kind for row in BUILT_IN}
    for row in rules.topology_options(settings).workloads.values():
        if row.group_kind in ROOT_KINDS or row.group_kind not in built_in:
            yield from _rights(_FOLLOW, row.group, row.resource, "a workload says how many Pods start together")
    yield from _leases(settings, settings.place.lease, "placers agree by this Lease which of them opens gates")


def _listed_workloads(settings: Settings, reason: str) -> list[Right]:
    rows = rules.topology_options(settings).workloads.values()
    return [right for row in rows for right in _rights("list", row.group, row.resource, reason, vital=False)]


def _gangs(settings: Settings) -> Iterator[Right]:
    if settings.topology.action == "off":
        return
    reason = "a warning says if no ResourceFlavor of Kueue names the topology"
    yield from _rights("list", KUEUE, "resourceflavors", reason, vital=False)
    among = settings.topology.deletion != "off" or settings.events.refusals
    if rules.schedules_workloads(settings) and not among:
        yield from _rights("list", "batch", "jobs", "the PodGroup of a Job gets the constraint in the Job's record")


def _policies(settings: Settings) -> Iterator[Right]:
    if settings.policies.config_maps:
        reason = "policies may be in ConfigMaps"
        yield from _rights(_FOLLOW, "", "configmaps", reason, namespace=settings.cluster.namespace)
        reason = "Events on ConfigMaps say which policies are wrong or slow"
        yield from _rights("create", "", "events", reason, namespace=settings.cluster.namespace, vital=False)
    if settings.policies.native:
        yield from _rights(
            _FOLLOW, ADMISSION, POLICIES.values(), "policies of the cluster may ask for rules for pod templates"
        )


def _reports(settings: Settings) -> Iterator[Right]:
    """The rights of the process with the Lease to look around and to tell people."""
    chosen, namespace = settings.registration, settings.cluster.namespace
    if rules.schedules_workloads(settings):  # whoever has these rights may run Pods
        reason = "dry runs show whether the API server keeps topology constraints of workloads"
        yield from _rights("create", "batch", "jobs", reason, namespace=namespace)
        yield from _rights("create", GROUP, "podgroups", reason, namespace=namespace)
    if settings.policies.config_maps:
        reason = "ConfigMaps with policies are annotated with what is wrong with them"
        yield from _rights("patch", "", "configmaps", reason, namespace=namespace, vital=False)
    if settings.policies.native:
        reason = "owners of policies that ask for rules for pod templates are told what is wrong with them"
        yield from _rights("create", "", "events", reason, vital=False)
    alone = settings.tls.secret or chosen.writes
    if alone and not settings.tolerations.action == settings.topology.action == "off":
        reason = "Events name Pods that an outage admitted unchanged and that wait"
        yield from _rights("list", "", "pods", reason, vital=False)
        yield from _rights("create", "", "events", reason, vital=False)
    if _leads(settings):
        if rules.follows_topologies(settings):
            reason = "Nodes with flaws of the network are counted, and what topologies have is published for policies"
            yield from _rights(_FOLLOW, "", "nodes", reason, vital=bool(settings.topology.facts))
        yield from _record(settings, "get", "metrics show what audits did, which they leave in this ConfigMap")


def _registration(settings: Settings) -> Iterator[Right]:
    chosen = settings.registration
    if chosen.apply:
        reason = "the service writes its webhook configurations and the policy of reserved labels, and follows them"
        # Authorization of a creation does not know the name.
        yield from _rights("create", ADMISSION, (*CONFIGURATIONS.values(), *POLICIES.values()), reason)
        verbs = (*_READ, "patch", "update", "delete")
        yield from _rights(verbs, ADMISSION, (*CONFIGURATIONS.values(), *POLICIES.values()), reason, name=chosen.name)
    elif chosen.ca_only:
        reason = "the service writes the caBundle into its webhook configurations, and follows them"
        yield from _rights((*_READ, "patch"), ADMISSION, CONFIGURATIONS.values(), reason, name=chosen.name)
    if chosen.owner:
        reason = "the ClusterRole owns the webhook configurations"
        yield from _rights("get", "rbac.authorization.k8s.io", "clusterroles", reason, name=chosen.owner)


def _followed_registration(settings: Settings) -> list[Right]:
    reason = "readiness and the trusted CA depend on what is registered"
    return _rights(_FOLLOW, ADMISSION, CONFIGURATIONS.values(), reason, name=settings.registration.name)


def _shared(settings: Settings) -> Iterator[Right]:
    namespace, secret, verbs = settings.cluster.namespace, settings.tls.secret, (*_FOLLOW, "update")
    if secret:
        reason = "the replicas share the CA in this Secret"
        yield from _rights("create", "", "secrets", reason, namespace=namespace)
        yield from _rights(verbs, "", "secrets", reason, name=secret, namespace=namespace)
    if secret and (leaf := settings.manage.secret):
        reason = "replicas mount this Secret with their certificate"
        yield from _rights(verbs, "", "secrets", reason, name=leaf, namespace=namespace)
    if _leads(settings):
        yield from _leases(settings, settings.cluster.lease, "the replicas agree by this Lease which of them writes")
    if (name := settings.topology.facts) and rules.follows_topologies(settings):
        reason = "what topologies have is published in this ConfigMap for policies"
        yield from _rights("create", "", "configmaps", reason, namespace=namespace)
        yield from _rights(("get", "update"), "", "configmaps", reason, name=name, namespace=namespace)


def _leads(settings: Settings) -> bool:
    return bool(settings.tls.secret or settings.manage.apart or settings.registration.writes)
