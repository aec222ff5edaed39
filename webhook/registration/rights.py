"""The rights that the accounts of replicas and of manage need in the cluster, depending on the settings. Pure.

Operators grant them by RBAC; `cks-admission doctor` checks each of them with the API server.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product

from msgspec import Struct
from msgspec.structs import replace

from policies.objects.workload import BUILT_IN, plural
from policies.selectors import pool
from policies.topology.objects import KINDS, KUEUE
from policies.topology.podcount import ROOT_KINDS
from policies.topology.workload import GROUP
from webhook.audit.reports import FORMS
from webhook.configuration import roles, rules
from webhook.configuration.settings import Settings

ADMISSION = "admissionregistration.k8s.io"
CONFIGURATIONS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
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
    rights = [
        *_facts(chosen),
        *_pools(chosen),
        *_topologies(chosen),
        *(_placer(chosen) if roles.places(chosen) else _lookout(chosen)),
        *_references(chosen),
        *_gangs(chosen),
        *_refusals(chosen),
        *_policies(chosen),
        *_events(chosen),
        *(() if chosen.manage.apart else _probe(chosen)),
        *(_followed_registration(chosen) if chosen.manage.apart else (*_reports(chosen), *_looks(chosen))),
        *_authorizer(chosen),
        *_registration(chosen),
        *(() if chosen.manage.apart else (*_shared(chosen), *_published_facts(chosen))),
    ]
    granted: dict[tuple[str, ...], Right] = {}
    for right in rights:
        granted.setdefault((right.verb, right.group, right.resource, right.name, right.namespace), right)
    return list(granted.values())


def needed_by_manager(settings: Settings) -> list[Right]:
    """All rights that manage needs, without duplicates. Raises SettingsError if it cannot run with these settings."""
    chosen = roles.of_manager(settings)
    namespace = chosen.cluster.namespace
    writes = chosen.registration.apply or chosen.registration.ca_only
    return [
        *_rights(_FOLLOW, "", ["namespaces"], "entries name the Namespaces of the control plane"),
        *_topologies(chosen),
        *_policies(chosen),
        *_events(chosen),
        *_reports(chosen),
        *_rights(_FOLLOW, "", ["pods"], "replicas say which paths they answer", namespace=namespace),
        *(_registration(chosen) if writes else _followed_registration(chosen)),
        *_shared(chosen),
        *_looks(chosen),
        *_published_facts(chosen),
        *_probe(chosen),
        *(() if writes else _publication(chosen)),
    ]


def needed_by_audit(settings: Settings) -> list[Right]:
    """All rights that an audit with reports needs beside those to read what it judges, without duplicates.

    Raises SettingsError for invalid settings.
    """
    chosen = roles.of_replica(settings)
    policies = (f"{kind}admissionpolic{end}" for kind in ("validating", "mutating") for end in ("ies", "ybindings"))
    maps = chosen.cluster.namespace
    verbs, reason = ("list", "create", "patch", "delete"), "what is found is told in reports"
    return [
        *_facts(chosen),
        *_pools(chosen),
        *_topologies(chosen),
        *_gangs(chosen),
        *(_rights(["list"], ADMISSION, policies, "they are judged by") if chosen.policies.native else ()),
        *(
            _rights(_FOLLOW, "", ["configmaps"], "policies may be there", namespace=maps)
            if chosen.policies.config_maps
            else ()
        ),
        *_record(chosen, "patch", "what the audit did is left in this ConfigMap"),
        *(right for form in FORMS for right in _rights(verbs, form.group, (form.plural, form.cluster_plural), reason)),
        *_findings(chosen),
    ]


def _record(settings: Settings, verb: str, reason: str) -> Iterator[Right]:
    """The right to the ConfigMap in which audits leave what they did."""
    if name := settings.audit.record:
        namespace = settings.cluster.namespace
        yield Right(verb, "", "configmaps", name=name, namespace=namespace, reason=reason, vital=False)


def _facts(settings: Settings) -> Iterator[Right]:
    yield from _rights(_READ, "", ["namespaces"], "rules look at the labels of Namespaces")
    if rules.follows_nodes(settings):
        yield from _rights(_FOLLOW, "", ["nodes"], "rules look at the labels and taints of Nodes")
    devices = ("deviceclasses", "resourceclaims", "resourceclaimtemplates")
    yield from _rights(_FOLLOW, "resource.k8s.io", devices, "device claims may make a Pod a GPU Pod")


def _pools(settings: Settings) -> Iterator[Right]:
    if settings.selectors.action == "off":
        return
    reason = "selectors may be for Nodes that a pool would add"
    for group in pool.VERSIONS:
        for right in _rights(_FOLLOW, group, [plural(pool.KIND)], reason):
            yield replace(right, vital=False)


def _topologies(settings: Settings) -> Iterator[Right]:
    if settings.topology.action == "off":
        return
    for group, kinds in KINDS.items():
        yield from _rights(_FOLLOW, group, map(plural, kinds), "workloads may name topologies of the cluster")


def placer(settings: Settings) -> list[Right]:
    """All rights that a placer which runs apart needs, without duplicates."""
    rights = [*_facts(settings), *_topologies(settings), *_placer(settings)]
    return list({(one.verb, one.group, one.resource, one.name, one.namespace): one for one in rights}.values())


def _placer(settings: Settings) -> Iterator[Right]:
    if settings.topology.action == "off":
        return
    yield from _rights(_FOLLOW, "", ["nodes", "pods"], "gangs are placed by what Pods leave free on Nodes")
    yield Right("patch", "", "pods", reason="the gates of Pods are opened")
    yield Right(
        "create", "", "events", reason="owners of gangs are told where these start, and why they wait", vital=False
    )
    yield Right("list", "", "events", reason="what a controller could not create is told with it", vital=False)
    reason = "Pods of lower priority may make room"
    for right in _rights(_FOLLOW, "scheduling.k8s.io", ["priorityclasses"], reason):
        yield replace(right, vital=False)
    table = rules.topology_options(settings).workloads
    built_in = {row.group_kind for row in BUILT_IN}
    for row in table.values():
        if row.group_kind in ROOT_KINDS or row.group_kind not in built_in:
            yield from _rights(_FOLLOW, row.group, [row.resource], "a workload says how many Pods start together")
    namespace, lease = settings.cluster.namespace, settings.place.lease
    reason = "placers agree who opens gates"
    yield Right("create", _LEASES, "leases", namespace=namespace, reason=reason)
    yield from _rights(("get", "update"), _LEASES, ["leases"], reason, name=lease, namespace=namespace)


def _lookout(settings: Settings) -> Iterator[Right]:
    """The right to see whether there is a placer."""
    if settings.topology.action != "off" and settings.place.apart:
        reason = "readiness says whether there is a placer, for which gangs wait"
        chosen = settings.cluster.namespace
        yield Right("get", _LEASES, "leases", name=settings.place.lease, namespace=chosen, reason=reason, vital=False)


def _references(settings: Settings) -> Iterator[Right]:
    if "off" in (settings.topology.action, settings.topology.deletion):
        return
    reason = "who deletes a Topology object is told which workloads name it"
    for row in rules.topology_options(settings).workloads.values():
        yield Right("list", row.group, row.resource, reason=reason, vital=False)


def _refusals(settings: Settings) -> Iterator[Right]:
    """The rights for Events about refusals, on workloads for which controllers work."""
    if not settings.events.refusals:
        return
    reason = "owners of workloads are told when what controllers make for these is refused"
    for row in rules.topology_options(settings).workloads.values():
        yield Right("list", row.group, row.resource, reason=reason, vital=False)
    yield Right("create", "", "events", reason=reason, vital=False)


def _findings(settings: Settings) -> Iterator[Right]:
    """The right for Events about what an audit finds."""
    if settings.events.findings:
        reason = "owners of workloads are told what an audit finds"
        yield Right("create", "", "events", reason=reason, vital=False)


def _gangs(settings: Settings) -> Iterator[Right]:
    """The rights to read what others who place gangs go by."""
    if settings.topology.action == "off":
        return
    reason = "who submits to Kueue is told if no ResourceFlavor names the topology"
    yield Right("list", KUEUE, "resourceflavors", reason=reason, vital=False)
    among = settings.topology.deletion != "off" or settings.events.refusals
    if rules.schedules_workloads(settings) and not among:
        yield Right("list", "batch", "jobs", reason="the PodGroup of a Job gets the constraint in the Job's record")


def _probe(settings: Settings) -> Iterator[Right]:
    """The rights to find out what Kubernetes' own scheduling of workloads does. Whoever has them may run Pods."""
    if rules.schedules_workloads(settings):
        reason = "dry runs show whether the API server keeps topology constraints of workloads"
        for group, resource in (("batch", "jobs"), (GROUP, "podgroups")):
            yield Right("create", group, resource, namespace=settings.cluster.namespace, reason=reason)


def _publication(settings: Settings) -> Iterator[Right]:
    """The right to write what was found out, where manage writes no webhook configurations."""
    if rules.schedules_workloads(settings):
        reason = "replicas read in the webhook configuration what dry runs show"
        yield Right("patch", ADMISSION, CONFIGURATIONS[0], name=settings.registration.name, reason=reason)


def _policies(settings: Settings) -> Iterator[Right]:
    chosen = settings.policies
    if chosen.config_maps:
        namespace = settings.cluster.namespace
        yield from _rights(_FOLLOW, "", ["configmaps"], "policies may be in ConfigMaps", namespace=namespace)
    if chosen.native:
        natives = ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
        yield from _rights(_FOLLOW, ADMISSION, natives, "policies of the cluster may ask for rules for pod templates")


def _events(settings: Settings) -> Iterator[Right]:
    if settings.policies.config_maps:
        reason = "owners of ConfigMaps with policies are told what is wrong with them, and which are slow"
        yield Right("create", "", "events", namespace=settings.cluster.namespace, reason=reason, vital=False)


def _reports(settings: Settings) -> Iterator[Right]:
    if settings.policies.config_maps:
        reason = "ConfigMaps with policies are annotated with what is wrong with them"
        yield Right("patch", "", "configmaps", namespace=settings.cluster.namespace, reason=reason, vital=False)


def _authorizer(settings: Settings) -> Iterator[Right]:
    chosen = settings.policies
    if chosen.native or chosen.config_maps or chosen.directories:
        reason = "policies may ask the authorizer"
        yield Right("create", "authorization.k8s.io", "subjectaccessreviews", reason=reason)


def _registration(settings: Settings) -> Iterator[Right]:
    chosen = settings.registration
    if chosen.apply:
        reason = "the service writes its webhook configurations, and follows them"
        # Authorization of a creation does not know the name.
        yield from _rights(["create"], ADMISSION, CONFIGURATIONS, reason)
        verbs = (*_READ, "patch", "update", "delete")
        yield from _rights(verbs, ADMISSION, CONFIGURATIONS, reason, name=chosen.name)
    elif chosen.ca_only:
        reason = "the service writes the caBundle into its webhook configurations, and follows them"
        yield from _rights((*_READ, "patch"), ADMISSION, CONFIGURATIONS, reason, name=chosen.name)
    if chosen.owner:
        reason = "the ClusterRole owns the webhook configurations"
        yield Right("get", "rbac.authorization.k8s.io", "clusterroles", name=chosen.owner, reason=reason)


def _followed_registration(settings: Settings) -> Iterator[Right]:
    reason = "what is registered decides who may be ready, and which CA is trusted"
    yield from _rights(_FOLLOW, ADMISSION, CONFIGURATIONS, reason, name=settings.registration.name)


def _shared(settings: Settings) -> Iterator[Right]:
    """The rights for the state that replicas share in their Namespace."""
    namespace, secret = settings.cluster.namespace, settings.tls.secret
    if secret:
        reason = "the replicas share the CA in this Secret"
        yield Right("create", "", "secrets", namespace=namespace, reason=reason)
        yield from _rights((*_FOLLOW, "update"), "", ["secrets"], reason, name=secret, namespace=namespace)
    if secret and (leaf := settings.manage.secret):
        reason = "replicas mount this Secret with their certificate"
        yield from _rights((*_FOLLOW, "update"), "", ["secrets"], reason, name=leaf, namespace=namespace)
    if _leads(settings):
        group, lease = "coordination.k8s.io", settings.cluster.lease
        reason = "the replicas agree by this Lease who of them writes"
        yield Right("create", group, "leases", namespace=namespace, reason=reason)
        yield from _rights(("get", "update"), group, ["leases"], reason, name=lease, namespace=namespace)


def _looks(settings: Settings) -> Iterator[Right]:
    """The rights of the process with the Lease to look around, each once."""
    rights = {(right.verb, right.group, right.resource): right for right in _looked(settings)}
    yield from rights.values()


def _looked(settings: Settings) -> Iterator[Right]:
    yield from _label_writers(settings)
    yield from _waiting(settings)
    yield from _survey(settings)
    if _leads(settings):
        yield from _record(settings, "get", "metrics show what audits did, which they leave in this ConfigMap")


def _survey(settings: Settings) -> Iterator[Right]:
    """The rights to follow the Nodes."""
    if rules.follows_topologies(settings) and _leads(settings):
        reason = "Nodes with flaws of the network are counted, and what topologies have is published for policies"
        for right in _rights(_FOLLOW, "", ["nodes"], reason):
            yield replace(right, vital=bool(settings.topology.facts))


def _published_facts(settings: Settings) -> Iterator[Right]:
    """The rights to write the ConfigMap with facts for policies."""
    name, namespace = settings.topology.facts, settings.cluster.namespace
    if name and rules.follows_topologies(settings):
        reason = "what topologies have is published in this ConfigMap for policies"
        yield Right("create", "", "configmaps", namespace=namespace, reason=reason)
        yield from _rights(("get", "update"), "", ["configmaps"], reason, name=name, namespace=namespace)


def _leads(settings: Settings) -> bool:
    """Whether the processes agree who leads."""
    chosen = settings.registration
    return bool(settings.tls.secret or settings.manage.apart or chosen.apply or chosen.ca_only)


def _label_writers(settings: Settings) -> Iterator[Right]:
    """The rights to look for what can write labels past the guard."""
    chosen = settings.registration
    if settings.labels.action == "off" or not (settings.tls.secret or chosen.apply or chosen.ca_only):
        return
    reason = "people are told which policies and conversions can write reserved labels past the guard"
    wanted = (
        ("list", ADMISSION, "mutatingadmissionpolicies"),
        ("list", ADMISSION, "mutatingadmissionpolicybindings"),
        ("list", "apiextensions.k8s.io", "customresourcedefinitions"),
        ("get", "apiextensions.k8s.io", "customresourcedefinitions"),
        ("create", "", "events"),
    )
    for verb, group, resource in wanted:
        yield Right(verb, group, resource, reason=reason, vital=False)


def _waiting(settings: Settings) -> Iterator[Right]:
    """The rights for Events on Pods that were admitted unchanged."""
    chosen = settings.registration
    if (settings.tls.secret or chosen.apply or chosen.ca_only) and _changes_pods(settings):
        reason = "owners of Pods that were admitted unchanged during an outage, and wait, are told"
        yield Right("list", "", "pods", reason=reason, vital=False)
        yield Right("create", "", "events", reason=reason, vital=False)


def _changes_pods(settings: Settings) -> bool:
    return not settings.tolerations.action == settings.topology.action == "off"


def _rights(
    verbs: Iterable[str], group: str, resources: Iterable[str], reason: str, *, name: str = "", namespace: str = ""
) -> Iterator[Right]:
    for resource, verb in product(resources, verbs):
        yield Right(verb, group, resource, name=name, namespace=namespace, reason=reason)
