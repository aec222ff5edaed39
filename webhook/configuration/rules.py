"""Makes the rules in force from the settings, with their hooks for the API server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from policies import guard, labels, sunk, tolerations
from policies.conditions import matchcondition
from policies.engine.exception import PolicyException
from policies.engine.help import NO_HELP, Help
from policies.engine.match import LabelSelector, ResourceRule, SelectorRequirement
from policies.engine.rule import Action, FailurePolicy, Hook, HookCondition, Rule, Scope
from policies.engine.ruleset import RuleSet
from policies.objects.accelerator import Accelerators
from policies.objects.workload import BUILT_IN, PATCHES, Workload, plural, table
from policies.selectors import rule as selectors_rule
from policies.topology import document, objects
from policies.topology import rule as topology_rule
from policies.topology.annotation import Schedulers
from policies.topology.catalog import BUILT_IN as BUILT_IN_TOPOLOGIES
from policies.topology.catalog import Catalog
from policies.topology.constraint import Default, Options
from policies.topology.scheduling import podgroup
from policies.topology.schemes import fields
from policies.topology.topology import shortened
from policies.topology.way.permission import Permission
from webhook import refused
from webhook.configuration import guards, safety, selectors
from webhook.configuration.placement import check_default
from webhook.configuration.selector import Selector
from webhook.configuration.settings import LabelExceptionSettings, Requesters, Settings, SettingsError
from webhook.sources import packfiles, topologyfiles

if TYPE_CHECKING:
    from policies.admissionpolicy.documents.exception import WrittenException
    from policies.admissionpolicy.evaluation.compilation import Compile
    from policies.admissionpolicy.model import Policy
    from webhook.sources.natives import Native
    from webhook.sources.policyfiles import PolicyFiles

BUILT_IN_RULES = (
    labels.RULE,
    guard.RULE,
    topology_rule.RULE,
    objects.RULE,
    tolerations.RULE,
    sunk.RULE,
    selectors_rule.RULE,
)

_WRITES = ("CREATE", "UPDATE")
_EVERYTHING = (ResourceRule(_WRITES, ("*",), ("*/*",)),)
_PODS = (ResourceRule(("CREATE",), ("",), ("pods",), ("v1",)),)
_POD_GROUPS = (ResourceRule(("CREATE",), (podgroup.GROUP,), ("podgroups",), ("*",)),)
_DAEMON_SETS = (ResourceRule(_WRITES, ("apps",), ("daemonsets",), ("v1",)),)


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


def build(
    settings: Settings,
    control_plane_namespaces: Iterable[str] = (),
    policies: PolicyRules = NO_POLICIES,
    catalog: Catalog | None = None,
) -> RuleSet:
    """The rules for the settings, and those of policies.

    control_plane_namespaces: those of the cluster, for the match conditions; the rules themselves look them up.
    catalog: the topologies; None: read them from their files. Raises SettingsError for contradictory settings.
    """
    catalog = topologies(settings) if catalog is None else catalog
    rules = [
        _labels_rule(settings, workload_table(settings), control_plane_namespaces),
        guards.rule(settings, control_plane_namespaces),
        # Before rules that change nearly every Pod: after a change, rules see a copy of the object.
        _topology_rule(settings, catalog),
        _topology_objects_rule(settings, catalog),
        _tolerations_rule(settings),
        _sunk_rule(settings),
    ]
    rows = _with_templates(settings)
    resources = _resources(row for row in rows.values() if row.group_kind != ("", "Pod"))
    selecting = selectors.rule(settings, rows, resources, rules, policies.shipped)
    rules += [replace(selecting, namespaces=_selector(settings.selectors.namespace_selector)), *policies.rules]
    exceptions = (*_exceptions(settings), *(written.value for written in policies.exceptions))
    return RuleSet(rules, exceptions, safety.safety(settings, control_plane_namespaces), help_of(settings))


def help_of(settings: Settings) -> Help:
    """Where refusals are explained; the pages are read only if there is an address for them."""
    return Help(settings.help.url, refused.sections()) if settings.help.url else NO_HELP


def of_policies(
    settings: Settings, files: PolicyFiles, compile_: Compile | None = None, native: Native | None = None
) -> PolicyRules:
    """The rules for policies and their bindings, mutating ones first, those of the packs last.

    native: those of the cluster, with rules of those that request them for pod templates. Of policies with one name
    that of the files counts, then that of the cluster. Raises SettingsError if one has the name of a built-in rule.
    """
    from policies.admissionpolicy.evaluation.compilation import compile_policy  # noqa: PLC0415 - as above
    from policies.admissionpolicy.evaluation.parameters import NO_PARAMETERS  # noqa: PLC0415 - as above
    from policies.admissionpolicy.rules import mutatingrule, validatingrule  # noqa: PLC0415 - nothing else needs the CEL engine
    from webhook.sources import packs  # noqa: PLC0415 - as above

    loaded, names = files.loaded, _names(files)
    chosen, workloads = compile_ or partial(compile_policy, release=files.release), workload_table(settings)
    given = (*_exceptions(settings), *(written.value for written in loaded.exceptions))
    made = [
        *mutatingrule.rules(loaded.policies, loaded.bindings, files.parameters, files.schema, given, chosen),
        *validatingrule.rules(loaded.policies, loaded.bindings, files.parameters, workloads, chosen),
    ]
    taken = {*reserved(), *names}
    if native is not None:
        own = [policy for policy in native.loaded.policies if policy.name not in taken]
        made += validatingrule.rules(own, native.loaded.bindings, NO_PARAMETERS, workloads, chosen, native=True)
        taken |= {*native.names}
    pack = packs.made(settings, taken)
    made += packs.rules(pack, workloads, chosen)
    known = dict.fromkeys((*(rule.name for rule in made), *names))
    return PolicyRules(tuple(made), loaded.exceptions, tuple(known), pack.policies, pack.replaced)


def _names(files: PolicyFiles) -> tuple[str, ...]:
    """The names of the policies in files. Raises SettingsError."""
    names = tuple(dict.fromkeys(policy.name for policy in files.loaded.policies))
    for name in reserved():
        if name in names:
            raise SettingsError(f"policies: {name!r} is the name of a built-in rule; give the policy another one")
    return names


def uses_policies(settings: Settings) -> bool:
    """Whether the settings name policies: files, those of a cluster, or packs."""
    chosen, cluster = settings.policies, settings.cluster
    in_cluster = bool(cluster.kubeconfig) or cluster.in_cluster
    return bool(chosen.directories) or settings.packs.is_on or (in_cluster and (chosen.config_maps or chosen.native))


def reserved() -> tuple[str, ...]:
    """The names of the built-in rules, which no policy may have."""
    from policies.admissionpolicy.rules import mutatingrule  # noqa: PLC0415 - as above

    return (*BUILT_IN_RULES, mutatingrule.NAME)


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


def workload_table(settings: Settings) -> Mapping[tuple[str, str], Workload]:
    """The table of workloads, with those of the settings. Raises SettingsError."""
    try:
        return table((*BUILT_IN, *(row.row for row in settings.workloads)))
    except ValueError as error:
        raise SettingsError(f"workloads: {error}") from None


def label_exceptions(settings: Settings) -> list[labels.LabelException]:
    """The reserved labels that people may set."""
    exceptions = [_label_exception(exception) for exception in settings.labels.exceptions]
    if settings.organization.id:
        exceptions.append(labels.organization(settings.organization.id))
    return exceptions


def _labels_rule(
    settings: Settings, workloads: Mapping[tuple[str, str], Workload], control_plane_namespaces: Iterable[str]
) -> Rule:
    exceptions = label_exceptions(settings)
    exempt, not_exempt = guards.exempt(settings, Requesters(), control_plane_namespaces)
    label_guard = labels.LabelGuard(workloads, exceptions, exempt)
    scopes: tuple[Scope, ...] = ("Namespaced", "Cluster")
    hooks = tuple(
        Hook(
            "validate",
            "labels",
            _EVERYTHING,
            _failure_policy(settings.labels.action),
            (
                matchcondition.reserved_label_changes(workloads.values(), exceptions, cluster_scope=scope == "Cluster"),
                not_exempt,
            ),
            scope,
            # It applies everywhere, because a label is like a right. Its conditions keep it from blocking a starting
            # cluster.
            everywhere=True,
        )
        for scope in scopes
    )
    return Rule(
        labels.RULE,
        hooks,
        settings.labels.action,
        label_guard.reads,
        _selector(settings.labels.namespace_selector),
        validate=label_guard.validate,
    )


def _tolerations_rule(settings: Settings) -> Rule:
    chosen = settings.tolerations
    rule = tolerations.CpuToleration(_accelerators(settings), chosen.daemon_sets)
    concerned = (
        matchcondition.pod_lacks_cpu_toleration(),
        matchcondition.pod_is_no_mirror(),
        matchcondition.pod_requests_no_accelerator(rule.accelerators),
    )
    # Few Pods are written with the toleration, so a condition would cost the API server more than the calls it spares.
    hooks = [_changing("pods", _PODS), _judging("pods", _PODS, chosen.action, concerned)]
    if chosen.daemon_sets == "inject":
        hooks.append(_changing("daemonsets", _DAEMON_SETS))
    if chosen.daemon_sets != "off":
        hooks.append(_judging("daemonsets", _DAEMON_SETS, chosen.action))
    return Rule(
        tolerations.RULE,
        tuple(hooks),
        chosen.action,
        tolerations.READS,
        _selector(chosen.namespace_selector),
        validate=rule.validate,
        mutate=rule.mutate,
    )


def _sunk_rule(settings: Settings) -> Rule:
    chosen = settings.sunk
    rule = sunk.SunkDaemonSets(chosen.daemon_sets, chosen.node_selector, settings.organization.reserved_hash)
    hooks = [_judging("daemonsets", _DAEMON_SETS, chosen.action)]
    if chosen.daemon_sets == "inject":
        hooks.append(_changing("daemonsets", _DAEMON_SETS))
    return Rule(
        sunk.RULE,
        tuple(hooks),
        "off" if chosen.daemon_sets == "off" else chosen.action,
        sunk.READS,
        _selector(chosen.namespace_selector),
        validate=rule.validate,
        mutate=rule.mutate,
    )


def _with_templates(settings: Settings) -> dict[tuple[str, str], Workload]:
    """The kinds that have pod templates or patches of them, without those that keep earlier ones."""
    rows = workload_table(settings).values()
    return {row.group_kind: row for row in rows if row.makes_pods or row.group_kind in PATCHES}


def _topology_rule(settings: Settings, catalog: Catalog) -> Rule:
    chosen = settings.topology
    options = topology_options(settings)
    check_default(chosen.default, catalog)
    rule = topology_rule.TopologyPlacement(catalog, options)
    rows = list(options.workloads.values())
    has_default = bool(chosen.default.topology and chosen.default.preferred)
    conditions = () if has_default else (matchcondition.topology_is_mentioned(rows),)
    written = [row for row in rows if row.affinity != "never"]
    # By default it fails open: controllers update annotated Pods and Jobs, and placement does not affect security.
    is_strict = chosen.action == chosen.unapplied == "deny"
    judged = list(_with_templates(settings).values())
    wider = () if has_default else (matchcondition.topology_is_mentioned(judged, schemes=True),)
    resources = (*_resources(judged), ResourceRule(_WRITES, (fields.POD_GROUP[0],), ("podgroups",)))
    judging = _judging("topology", resources, chosen.action, wider)
    judging = replace(judging, failure_policy="Fail" if is_strict else "Ignore")
    hooks = [_changing("topology", _resources(written), conditions), judging]
    if judging.failure_policy == _failure_policy(settings.tolerations.action) and settings.tolerations.action != "off":
        hooks = [part for hook in hooks for part in _with_pods_apart(hook)]
    if schedules_workloads(settings):
        hooks.append(_changing("gangs", _POD_GROUPS))
    return Rule(
        topology_rule.RULE,
        tuple(replace(hook, scope="*") if hook.group == "topology" else hook for hook in hooks),
        chosen.action,
        topology_rule.reads(rows) | podgroup.READS,
        _selector(chosen.namespace_selector),
        validate=rule.validate,
        mutate=rule.mutate,
    )


def _with_pods_apart(hook: Hook) -> Iterator[Hook]:
    """The hook without new Pods, and one for these in the entry that asks about them anyway.

    The API server converts an object anew for each entry, which costs it more than any condition.
    """
    about = matchcondition.topology_is_mentioned((), schemes=hook.phase == "validate")
    conditions = (about,) if hook.conditions else ()
    yield replace(hook, group="pods", resources=_PODS, conditions=conditions)
    without = (replace(rule, resources=tuple(r for r in rule.resources if r != "pods")) for rule in hook.resources)
    updates = replace(_PODS[0], operations=("UPDATE",))
    yield replace(hook, resources=(*(rule for rule in without if rule.resources), updates))


def _topology_objects_rule(settings: Settings, catalog: Catalog) -> Rule:
    chosen = settings.topology
    rule = objects.TopologyObjects(catalog, chosen.deletion)
    operations = (*_WRITES, *(("DELETE",) if chosen.deletion != "off" else ()))
    resources = [
        ResourceRule(operations, (group,), tuple(map(plural, kinds))) for group, kinds in document.KINDS.items()
    ]
    if chosen.deletion != "off":
        resources.append(ResourceRule(("UPDATE", "DELETE"), (document.KUEUE,), ("resourceflavors",)))
    # What cannot work is refused, but nothing that runs depends on it: only a wish to keep what is named fails closed.
    strict = chosen.action == chosen.deletion == "deny"
    hook = replace(_judging("topologies", tuple(resources), "deny" if strict else "warn"), scope="Cluster")
    return Rule(objects.RULE, (hook,), chosen.action, objects.READS, validate=rule.validate)


def topologies(settings: Settings) -> Catalog:
    """The topologies from settings and files, without the cluster's. Raises SettingsError."""
    own = (
        document.make(
            own_topology.name,
            [level.written for level in own_topology.levels],
            f"topology.topologies[{index}] of the configuration",
            requirement=_selector(own_topology.node_requirement),
            pool=_selector(own_topology.pool) if own_topology.pool != Selector() else None,
        )
        for index, own_topology in enumerate(settings.topology.topologies)
    )
    try:
        given = (*own, *topologyfiles.read(settings.topology.files))
        prefixes = settings.topology.topograph_prefixes
        catalog = Catalog((*(shortened(one, prefixes) for one in given), *BUILT_IN_TOPOLOGIES))
    except topologyfiles.TopologyFilesError as error:
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


def topology_options(settings: Settings) -> Options:
    """The options for topology annotations from the settings. Raises SettingsError."""
    chosen = settings.topology
    default = chosen.default
    return Options(
        workloads={kind: row for kind, row in _with_templates(settings).items() if row.makes_pods},
        schedulers=Schedulers(chosen.schedulers.reading, chosen.schedulers.labels, chosen.schedulers.ignoring),
        accelerators=_accelerators(settings),
        default=Default(default.topology, default.preferred, _selector(default.namespace_selector)),
        not_more_specific=chosen.preferred_not_more_specific,
        unapplied=chosen.unapplied,
        pool_keys=chosen.pool_keys,
        placement=tuple(
            Permission(entry.topologies, _selector(entry.namespace_selector), entry.ways) for entry in chosen.placement
        ),
        full=chosen.full,
        autoscaling=chosen.autoscaling,
        refuses=chosen.action == "deny",
        schedules=schedules_workloads(settings),
        topograph=chosen.topograph_prefixes,
    )


def _resources(rows: Iterable[Workload]) -> tuple[ResourceRule, ...]:
    """The resources of kinds, as one rule for each group."""
    by_group: dict[str, list[str]] = {}
    for row in rows:
        by_group.setdefault(row.group, []).append(row.resource)
    return tuple(ResourceRule(_WRITES, (group,), tuple(names)) for group, names in by_group.items())


def _accelerators(settings: Settings) -> Accelerators:
    chosen = settings.tolerations.accelerators
    return Accelerators(chosen.resources, chosen.device_classes)


def _changing(group: str, resources: tuple[ResourceRule, ...], conditions: tuple[HookCondition, ...] = ()) -> Hook:
    """A mutating hook. It fails open, so that it never refuses objects."""
    return Hook("mutate", group, resources, "Ignore", conditions, everywhere=True)


def _judging(
    group: str, resources: tuple[ResourceRule, ...], action: Action, conditions: tuple[HookCondition, ...] = ()
) -> Hook:
    """A validating hook. If it refuses objects, it excludes those that a cluster cannot do without."""
    return Hook("validate", group, resources, _failure_policy(action), conditions, everywhere=action != "deny")


def _failure_policy(action: Action) -> FailurePolicy:
    """The failure policy for an action: a rule that refuses fails closed, a rule that only reports fails open."""
    return "Fail" if action == "deny" else "Ignore"


def _exceptions(settings: Settings) -> list[PolicyException]:
    """The entries of `exceptions:`, each named after its place in the configuration."""
    return [
        PolicyException(
            f"exceptions[{index}]", **{**dict(exception), "object_selector": _selector(exception.object_selector)}
        )
        for index, exception in enumerate(settings.exceptions)
    ]


def _label_exception(exception: LabelExceptionSettings) -> labels.LabelException:
    kinds = ((group, kind) for kind, _, group in (name.partition(".") for name in exception.kinds))
    return labels.LabelException(exception.key, frozenset(kinds), frozenset(exception.values))


def _selector(selector: Selector) -> LabelSelector:
    equal = (SelectorRequirement(key, "In", (value,)) for key, value in selector.match_labels.items())
    others = (SelectorRequirement(r.key, r.operator, r.values) for r in selector.match_expressions)
    return LabelSelector((*equal, *others))
