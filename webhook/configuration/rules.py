"""The rules in force, made from the settings: the built-in ones with their hooks, and those of policies and packs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from policies import guard, labelpolicy, labels, matchconditions, selectors, tolerations
from policies.engine.match import LabelSelector, ResourceRule, SelectorRequirement
from policies.engine.request import JsonObject
from policies.engine.rule import (
    POLICY_GROUPS,
    Action,
    FailurePolicy,
    Hook,
    HookCondition,
    PolicyException,
    Rule,
    RuleSet,
)
from policies.engine.safety import CONTROL_PLANE, CONTROL_PLANE_LABEL, SYSTEM_NAMESPACES, Exemptions, Safety
from policies.engine.violation import NO_HELP, Help, quote
from policies.kubernetes.release import Release
from policies.objects.workload import BUILT_IN, PATCHES, Workload, plural, table
from policies.podspec import Accelerators
from policies.topology import messages, objects, rule, schemes
from policies.topology.placement import PlacementError, parse
from policies.topology.template import LOWEST, Default, Options, Permission, Schedulers
from policies.topology.topology import BUILT_IN as BUILT_IN_TOPOLOGIES
from policies.topology.topology import Catalog, shortened
from policies.topology.way import GROUP
from policies.vocabulary import OLD_TYPE, RESERVED
from webhook import refused
from webhook.configuration.rulesettings import Requesters, Selector
from webhook.configuration.settings import Settings, SettingsError
from webhook.files.yamlfile import FileError
from webhook.sources import packfiles, topologyfiles

if TYPE_CHECKING:
    from policies.admissionpolicy.documents.reader import WrittenException
    from policies.admissionpolicy.evaluation.compilation import Compile
    from policies.admissionpolicy.model import Policy
    from webhook.sources.policyfiles import PolicyFiles
    from webhook.sources.policyset import Native

_WRITES = ("CREATE", "UPDATE")
_EVERYTHING = (ResourceRule(_WRITES, ("*",), ("*/*",)),)
_PODS = (ResourceRule(("CREATE",), ("",), ("pods",), ("v1",)),)
_WRITTEN_PODS = (ResourceRule(_WRITES, ("",), ("pods",)),)
_POD_GROUPS = (ResourceRule(("CREATE",), (GROUP,), ("podgroups",), ("*",)),)
_DAEMON_SETS = (ResourceRule(_WRITES, ("apps",), ("daemonsets",), ("v1",)),)
_NAMESPACES = ResourceRule(("UPDATE", "DELETE"), ("",), ("namespaces", "namespaces/finalize"), ("v1",))
_NODES = ResourceRule(("UPDATE",), ("",), ("nodes",), ("v1",))
# The keys of which the policy node-selector tells whose values cannot work.
_TOLD_BY_PACK = ("node-selector", frozenset({OLD_TYPE, RESERVED}))


def _mutation(group: str, resources: tuple[ResourceRule, ...], conditions: tuple[HookCondition, ...] = ()) -> Hook:
    """A mutating hook. It fails open, so that it never refuses objects."""
    return Hook("mutate", group, resources, "Ignore", conditions, "*", everywhere=True)


def _validation(
    resources: tuple[ResourceRule, ...],
    action: Action,
    conditions: tuple[HookCondition, ...] = (),
    failure_policy: FailurePolicy | None = None,
) -> Hook:
    """A validating hook, in one entry with policies. If it refuses, it excludes what a cluster cannot do without."""
    fails = failure_policy or _failure_policy(action)
    everywhere = action != "deny"
    return Hook("validate", POLICY_GROUPS[fails], resources, fails, conditions, "*", exact=True, everywhere=everywhere)


def _failure_policy(action: Action) -> FailurePolicy:
    """The failure policy for an action: a rule that refuses fails closed, a rule that only reports fails open."""
    return "Fail" if action == "deny" else "Ignore"


def workload_table(settings: Settings) -> Mapping[tuple[str, str], Workload]:
    """The table of workloads, with those of the settings. Raises SettingsError."""
    try:
        return table((*BUILT_IN, *(row.row for row in settings.workloads)))
    except ValueError as error:
        raise SettingsError(f"workloads: {error}") from None


def _with_templates(settings: Settings) -> dict[tuple[str, str], Workload]:
    """The kinds that have pod templates or patches of them, without those that keep earlier ones."""
    rows = workload_table(settings).values()
    return {row.group_kind: row for row in rows if row.makes_pods or row.group_kind in PATCHES}


def _without_pods(rows: Iterable[Workload]) -> list[Workload]:
    return [row for row in rows if row.group_kind != ("", "Pod")]


def _resources(rows: Iterable[Workload], operations: tuple[str, ...] = _WRITES) -> tuple[ResourceRule, ...]:
    by_group: dict[str, list[str]] = {}
    for row in rows:
        by_group.setdefault(row.group, []).append(row.resource)
    return tuple(ResourceRule(operations, (group,), tuple(names)) for group, names in by_group.items())


def _accelerators(settings: Settings) -> Accelerators:
    chosen = settings.tolerations.accelerators
    return Accelerators(chosen.resources, chosen.device_classes)


def _exempt(
    settings: Settings, more: Requesters, control_plane_namespaces: Iterable[str]
) -> tuple[Exemptions, HookCondition]:
    """The requesters of labels.exempt and more, and the condition that is false for them."""
    built_in, common = Exemptions(), settings.labels.exempt
    exempt_ones = Exemptions(
        users=(*built_in.users, *common.users, *more.users),
        groups=(*built_in.groups, *common.groups, *more.groups),
        service_accounts=(*built_in.service_accounts, *common.service_accounts, *more.service_accounts),
    )
    configured = tuple(f"{namespace}/*" for namespace in common.control_plane_namespaces)
    namespaces = sorted({*control_plane_namespaces, *common.control_plane_namespaces})
    condition = matchconditions.requester_is_not_exempt(exempt_ones, namespaces)
    return replace(exempt_ones, service_accounts=(*exempt_ones.service_accounts, *configured)), condition


def label_exceptions(settings: Settings) -> list[labels.LabelException]:
    """The reserved labels that people may set."""
    exceptions = []
    for exception in settings.labels.exceptions:
        kinds = ((group, kind) for kind, _, group in (name.partition(".") for name in exception.kinds))
        exceptions.append(labels.LabelException(exception.key, frozenset(kinds), frozenset(exception.values)))
    if settings.organization.id:
        exceptions.append(labels.organization(settings.organization.id))
    return exceptions


def labels_rule(settings: Settings, control_plane_namespaces: Iterable[str]) -> Rule:
    """The rule for reserved labels."""
    workloads = workload_table(settings)
    exceptions = label_exceptions(settings)
    exempt_ones, not_exempt = _exempt(settings, Requesters(), control_plane_namespaces)
    label_guard = labels.LabelGuard(workloads, exceptions, exempt_ones)
    # It applies everywhere, because a label is like a right. Its conditions keep it from blocking a starting cluster.
    hook = Hook("validate", "labels", _EVERYTHING, _failure_policy(settings.labels.action), everywhere=True)
    changes = partial(matchconditions.reserved_label_changes, workloads.values(), exceptions)
    hooks = (
        replace(hook, scope="Namespaced", conditions=(changes(cluster_scope=False), not_exempt)),
        replace(hook, scope="Cluster", conditions=(changes(cluster_scope=True), not_exempt)),
    )
    chosen, selected = settings.labels, settings.labels.namespace_selector.label_selector
    return Rule(labels.RULE, hooks, chosen.action, label_guard.reads, selected, label_guard.validate)


def labels_policy(
    settings: Settings, control_plane_namespaces: Iterable[str], dated: Iterable[PolicyException], today: date
) -> JsonObject:
    """The spec of the policy by which the API server itself enforces the rule for reserved labels."""
    conditions = [
        _exempt(settings, Requesters(), control_plane_namespaces)[1],
        *labelpolicy.no_exception_covers(dated, today),
    ]
    requirements = settings.labels.namespace_selector.label_selector.requirements
    return labelpolicy.spec(workload_table(settings), label_exceptions(settings), conditions, requirements)


def admission_policy(settings: Settings) -> JsonObject:
    """The spec of the policy that judges what can write labels, as a file. The service's own accounts are exempt."""
    chosen = settings.guard
    condition = _exempt(settings, chosen.exempt, (settings.cluster.namespace,))[1]
    exceptions, trusted = label_exceptions(settings), settings.labels.trusted
    return labelpolicy.writers_spec([condition], exceptions, trusted, refuses=chosen.admission == "deny")


def enforces_labels(settings: Settings, release: Release) -> bool:
    """Whether the API server enforces the rule for reserved labels itself, by a policy that is written here.

    A release that converts objects for policies takes a millisecond for each Pod, some times as long as to call.
    """
    chosen = settings.labels
    wanted = chosen.enforced_by in ("policy", "static") or (
        chosen.enforced_by == "auto" and not release.converts_objects
    )
    return wanted and chosen.action == "deny" and settings.registration.apply


def guard_rule(settings: Settings, control_plane_namespaces: Iterable[str]) -> Rule:
    """The rule. It fails open even where it refuses: without the service people must be able to repair Nodes."""
    chosen = settings.guard
    exempt_ones, condition = _exempt(settings, chosen.exempt, control_plane_namespaces)
    made = guard.Guard(chosen.namespaces, chosen.taints, exempt_ones)
    modes = ((chosen.namespaces, _NAMESPACES), (chosen.taints, _NODES))
    resources = tuple(resource for mode, resource in modes if mode != "off")
    concerned = matchconditions.takes_away(namespaces=chosen.namespaces != "off", taints=chosen.taints != "off")
    hooks = [Hook("validate", "guard", resources, "Ignore", (concerned, condition), "Cluster", everywhere=True)]
    if chosen.namespaces != "off":
        made_there = _resources(_with_templates(settings).values(), ("CREATE",))
        theirs = LabelSelector((SelectorRequirement(CONTROL_PLANE_LABEL, "In", (CONTROL_PLANE,)),))
        hook = Hook(
            "validate", "guard", made_there, "Ignore", (condition,), exact=True, namespaces=theirs, everywhere=True
        )
        hooks.append(hook)
    action: Action = max(chosen.namespaces, chosen.taints, key=("off", "warn", "deny").index)
    return Rule(guard.RULE, tuple(hooks), action, guard.READS, validate=made.validate)


def tolerations_rule(settings: Settings) -> Rule:
    """The rule for CPU Pods and DaemonSets."""
    chosen = settings.tolerations
    rule = tolerations.CpuToleration(_accelerators(settings), chosen.daemon_sets)
    concerned = (
        matchconditions.LACKS_CPU_TOLERATION,
        matchconditions.NO_MIRROR_POD,
        matchconditions.pod_requests_no_accelerator(rule.accelerators),
    )
    # Few Pods are written with the toleration, so a condition would cost the API server more than the calls it spares.
    hooks = [_mutation("pods", _PODS), _validation(_PODS, chosen.action, concerned)]
    if chosen.daemon_sets == "inject":
        hooks.append(_mutation("workloads", _DAEMON_SETS))
    if chosen.daemon_sets != "off":
        hooks.append(_validation(_DAEMON_SETS, chosen.action))
    reads, selected = tolerations.READS, chosen.namespace_selector.label_selector
    return Rule(tolerations.RULE, tuple(hooks), chosen.action, reads, selected, rule.validate, rule.mutate)


def sunk_rule(settings: Settings) -> Rule:
    """The rule for DaemonSets on SUNK Nodes."""
    chosen = settings.sunk
    rule = tolerations.SunkDaemonSets(chosen.daemon_sets, chosen.node_selector, settings.organization.reserved_hash)
    hooks = [_validation(_DAEMON_SETS, chosen.action)]
    if chosen.daemon_sets == "inject":
        hooks.append(_mutation("workloads", _DAEMON_SETS))
    action = "off" if chosen.daemon_sets == "off" else chosen.action
    reads, selected = tolerations.SUNK_READS, chosen.namespace_selector.label_selector
    return Rule(tolerations.SUNK_RULE, tuple(hooks), action, reads, selected, rule.validate, rule.mutate)


def selectors_rule(settings: Settings, shipped: Iterable[Policy]) -> Rule:
    """The rule for selectors of Nodes that people write by hand. shipped: the policies of packs."""
    rows = _with_templates(settings)
    policy, keys = _TOLD_BY_PACK
    explained = keys if any(one.name == policy for one in shipped) else frozenset[str]()
    templated = _without_pods(rows.values())
    about_pods, about_templates = map(matchconditions.selectors_are_concerned, ((), templated))
    validate = selectors.NodeSelectors(rows, settings.organization.id, explained).validate
    hooks = _validation(_PODS, "warn", (about_pods,)), _validation(_resources(templated), "warn", (about_templates,))
    chosen, selected = settings.selectors, settings.selectors.namespace_selector.label_selector
    return Rule(selectors.RULE, hooks, chosen.action, selectors.reads(rows.values()), selected, validate)


def topology_rule(settings: Settings, catalog: Catalog, *, clustered: bool = True) -> Rule:
    """The rule for annotations. clustered: see `topology_options`. Raises SettingsError."""
    chosen = settings.topology
    options = topology_options(settings, clustered=clustered)
    default = catalog.find(chosen.default.topology)
    if default is not None and chosen.default.preferred not in ("", LOWEST):
        try:  # an unknown topology may be in the cluster
            parse(chosen.default.preferred, default)
        except PlacementError as error:
            text = f"topology.default.preferred: {quote(chosen.default.preferred)} {error}"
            raise SettingsError(" ".join(text.split())) from None
    placement = rule.TopologyPlacement(catalog, options)
    rows = list(options.workloads.values())
    # By default it fails open: controllers update annotated Pods and Jobs, and placement does not affect security.
    failure_policy: FailurePolicy = "Fail" if chosen.action == chosen.unapplied == "deny" else "Ignore"
    has_default = bool(chosen.default.topology and chosen.default.preferred)
    judged = _without_pods(_with_templates(settings).values())
    written = _without_pods(row for row in rows if row.changes != "never")
    unread = [kind for kind in sorted(messages.UNREAD) if kind not in options.workloads]
    others = (ResourceRule(_WRITES, (group,), (plural(kind),)) for group, kind in (schemes.POD_GROUP, *unread))

    def conditions(about: Sequence[Workload], *, schemes: bool) -> tuple[HookCondition, ...]:
        return () if has_default else (matchconditions.topology_is_mentioned(about, schemes=schemes),)

    hooks = [
        # A gate is only written into a new Pod, but its placement must not be changed later.
        _mutation("pods", _PODS, conditions((), schemes=False)),
        _mutation("workloads", _resources(written), conditions(written, schemes=False)),
        _validation(_WRITTEN_PODS, chosen.action, conditions((), schemes=True), failure_policy),
        _validation((*_resources(judged), *others), chosen.action, conditions(judged, schemes=True), failure_policy),
    ]
    if schedules_workloads(settings):
        hooks.append(_mutation("gangs", _POD_GROUPS))
    reads, selected = rule.reads(rows), chosen.namespace_selector.label_selector
    return Rule(rule.RULE, tuple(hooks), chosen.action, reads, selected, placement.validate, placement.mutate)


def topology_objects_rule(settings: Settings, catalog: Catalog) -> Rule:
    """The rule for Topology objects."""
    chosen = settings.topology
    made = objects.TopologyObjects(catalog, chosen.deletion)
    operations = (*_WRITES, *(("DELETE",) if chosen.deletion != "off" else ()))
    resources = [
        ResourceRule(operations, (group,), tuple(map(plural, kinds))) for group, kinds in objects.KINDS.items()
    ]
    if chosen.deletion != "off":
        resources.append(ResourceRule(("UPDATE", "DELETE"), (objects.KUEUE,), ("resourceflavors",)))
    # What cannot work is refused, but nothing that runs depends on it: only a wish to keep what is named fails closed.
    strict = chosen.action == chosen.deletion == "deny"
    verdict = _validation(tuple(resources), "deny" if strict else "warn")
    hook = replace(verdict, group="topologies", scope="Cluster", exact=False)
    return Rule(objects.RULE, (hook,), chosen.action, objects.READS, validate=made.validate)


def topologies(settings: Settings) -> Catalog:
    """The topologies from settings and files, without the cluster's. Raises SettingsError."""
    own = (
        objects.make(
            own_topology.name,
            [level.written for level in own_topology.levels],
            f"topology.topologies[{index}] of the configuration",
            requirement=own_topology.node_requirement.label_selector,
            pool=own_topology.pool.label_selector if own_topology.pool != Selector() else None,
        )
        for index, own_topology in enumerate(settings.topology.topologies)
    )
    try:
        given = (*own, *topologyfiles.read(settings.topology.files))
        prefixes = settings.topology.topograph_prefixes
        catalog = Catalog((*(shortened(one, prefixes) for one in given), *BUILT_IN_TOPOLOGIES))
    except FileError as error:
        raise SettingsError(str(error)) from None
    if catalog.clashes:
        raise SettingsError("\n".join(map(str, catalog.clashes)))
    return catalog


def follows_topologies(settings: Settings) -> bool:
    """Whether a rule needs the topologies of the cluster, and the workloads that name them."""
    return settings.topology.action != "off"


def follows_nodes(settings: Settings) -> bool:
    """Whether a rule needs the Nodes."""
    follows_sunk = "off" not in (settings.sunk.daemon_sets, settings.sunk.action)
    return follows_topologies(settings) or follows_sunk or settings.selectors.action != "off"


def schedules_workloads(settings: Settings) -> bool:
    """Whether placements may be left to Kubernetes' own scheduling of workloads."""
    return follows_topologies(settings) and settings.topology.workload_scheduling == "on"


def topology_options(settings: Settings, *, clustered: bool = True) -> Options:
    """The options for topology annotations from the settings. Raises SettingsError.

    clustered: whether there is a cluster, in which a placer opens the gates of Pods.
    """
    chosen = settings.topology
    default = chosen.default
    return Options(
        workloads={kind: row for kind, row in _with_templates(settings).items() if row.makes_pods},
        schedulers=Schedulers(chosen.schedulers.reading, chosen.schedulers.labels, chosen.schedulers.ignoring),
        accelerators=_accelerators(settings),
        default=Default(default.topology, default.preferred, default.namespace_selector.label_selector),
        not_more_specific=chosen.preferred_not_more_specific,
        unapplied=chosen.unapplied,
        pool_keys=chosen.pool_keys,
        placement=tuple(
            Permission(entry.topologies, entry.namespace_selector.label_selector, entry.ways)
            for entry in chosen.placement
        ),
        autoscaling=chosen.autoscaling,
        schedules=schedules_workloads(settings),
        topograph=chosen.topograph_prefixes,
        clustered=clustered,
    )


BUILT_IN_RULES = (
    labels.RULE,
    guard.RULE,
    rule.RULE,
    objects.RULE,
    tolerations.RULE,
    tolerations.SUNK_RULE,
    selectors.RULE,
)


class PolicyRules(NamedTuple):
    """The result of policies: their rules, the exceptions beside them, and the names that exceptions may use.

    shipped: the policies of packs that are in force. replaced: the names of those whose place others take.
    """

    rules: tuple[Rule, ...] = ()
    exceptions: tuple[WrittenException, ...] = ()
    names: tuple[str, ...] = ()
    shipped: tuple[Policy, ...] = ()
    replaced: tuple[str, ...] = ()


NO_POLICIES = PolicyRules()


def of_policies(
    settings: Settings, files: PolicyFiles, compile_: Compile | None = None, native: Native | None = None
) -> PolicyRules:
    """The rules for policies and their bindings, mutating ones first, those of the packs last.

    native: those of the cluster, with rules of those that request them for pod templates. Of policies with one name
    that of the files counts, then that of the cluster. Raises SettingsError if one has the name of a built-in rule.
    """
    from policies.admissionpolicy.evaluation.compilation import compile_policy  # noqa: PLC0415 - as above
    from policies.admissionpolicy.evaluation.inputs import NO_PARAMETERS  # noqa: PLC0415 - as above
    from policies.admissionpolicy.rules import policyrule  # noqa: PLC0415 - nothing else needs the CEL engine
    from webhook.sources import packs  # noqa: PLC0415 - as above

    names = tuple(dict.fromkeys(policy.name for policy in files.loaded.policies))
    for name in reserved():
        if name in names:
            raise SettingsError(f"policies: {name!r} is the name of a built-in rule; give the policy another one")
    loaded = files.loaded
    chosen, workloads = compile_ or partial(compile_policy, release=files.release), workload_table(settings)
    given = (*exceptions(settings), *(written.value for written in loaded.exceptions))
    made = [
        *policyrule.mutating_rules(loaded.policies, loaded.bindings, files.parameters, files.schema, given, chosen),
        *policyrule.validating_rules(loaded.policies, loaded.bindings, files.parameters, workloads, chosen),
    ]
    taken = {*reserved(), *names}
    if native is not None:
        own = [policy for policy in native.loaded.policies if policy.name not in taken]
        made += policyrule.validating_rules(own, native.loaded.bindings, NO_PARAMETERS, workloads, chosen, native=True)
        taken |= {*native.names}
    pack = packs.made(settings, taken)
    made += packs.rules(pack, workloads, chosen)
    known = dict.fromkeys((*(rule.name for rule in made), *names))
    return PolicyRules(tuple(made), loaded.exceptions, tuple(known), pack.policies, pack.replaced)


def reserved() -> tuple[str, ...]:
    """The names of the built-in rules, which no policy may have."""
    from policies.admissionpolicy.rules import policyrule  # noqa: PLC0415 - as above

    return (*BUILT_IN_RULES, policyrule.MUTATING_POLICIES)


def unknown_names(settings: Settings, policies: PolicyRules = NO_POLICIES) -> list[str]:
    """A line for each unknown name in an exception. Policies without a binding are known, and packs that are off."""
    written = [exception.value.rules for exception in policies.exceptions]
    named = {name for names in (*written, *(exception.rules for exception in settings.exceptions)) for name in names}
    off = (name for pack in type(settings.packs).names() if named for name in packfiles.names(pack).policies)
    known = tuple(dict.fromkeys((*BUILT_IN_RULES, *policies.names, *(name for name in off if name in named))))
    unknown = [
        f"exceptions: there is no rule {name!r}; known are {', '.join(known)}"
        for exception in settings.exceptions
        for name in exception.rules
        if name not in known
    ]
    return [*unknown, *(str(problem) for written in policies.exceptions for problem in written.unknown(known))]


def exceptions(settings: Settings) -> list[PolicyException]:
    """The entries of `exceptions:`, each named after its place in the configuration."""
    return [
        PolicyException(
            f"exceptions[{index}]", **{**dict(exception), "object_selector": exception.object_selector.label_selector}
        )
        for index, exception in enumerate(settings.exceptions)
    ]


def build(
    settings: Settings,
    control_plane_namespaces: Iterable[str] = (),
    policies: PolicyRules = NO_POLICIES,
    catalog: Catalog | None = None,
    *,
    clustered: bool = True,
) -> RuleSet:
    """The rules for the settings, and those of policies.

    control_plane_namespaces: those of the cluster, for the match conditions; the rules themselves look them up.
    catalog: the topologies; None: read them from their files. clustered: whether there is a cluster, and so a placer.
    Raises SettingsError for contradictory settings.
    """
    catalog = topologies(settings) if catalog is None else catalog
    rules = [
        labels_rule(settings, control_plane_namespaces),
        guard_rule(settings, control_plane_namespaces),
        # Before rules that change nearly every Pod: after a change, rules see a copy of the object.
        topology_rule(settings, catalog, clustered=clustered),
        topology_objects_rule(settings, catalog),
        tolerations_rule(settings),
        sunk_rule(settings),
    ]
    rules += [selectors_rule(settings, policies.shipped), *policies.rules]
    written = (*exceptions(settings), *(exception.value for exception in policies.exceptions))
    # The pages that explain refusals are read only if there is an address for them.
    explained = Help(settings.help.url, refused.sections()) if settings.help.url else NO_HELP
    return RuleSet(rules, written, safety(settings, control_plane_namespaces), explained)


def safety(settings: Settings, control_plane_namespaces: Iterable[str] = ()) -> Safety:
    """The essential writes.

    control_plane_namespaces: those with the label of the control plane. It is reserved, so no tenant can set it.
    """
    chosen, own = settings.safety, settings.cluster.namespace
    names = dict.fromkeys((*SYSTEM_NAMESPACES, *chosen.namespaces, *sorted(control_plane_namespaces)))
    resources = ((group, name) for name, _, group in (resource.partition(".") for resource in chosen.resources))
    return Safety(own, tuple(name for name in names if name != own), tuple(resources), chosen.users)
