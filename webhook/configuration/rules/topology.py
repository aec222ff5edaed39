"""Makes the rules `topology` and `topology-objects` from the settings."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from policies import matchconditions
from policies.engine.match import ResourceRule
from policies.engine.rule import Hook, Rule
from policies.objects.workload import plural
from policies.topology import document, objects, rule, warning
from policies.topology.annotation import Schedulers
from policies.topology.catalog import BUILT_IN as BUILT_IN_TOPOLOGIES
from policies.topology.catalog import Catalog
from policies.topology.constraint import Default, Options, Permission
from policies.topology.scheduling.workload import GROUP
from policies.topology.schemes import mention
from policies.topology.topology import shortened
from webhook.configuration.placement import check_default
from webhook.configuration.rules.hook import PODS, WRITES, failure_policy, mutation, validation
from webhook.configuration.rules.workloads import accelerators, resources, with_templates
from webhook.configuration.selector import Selector
from webhook.configuration.settings import Settings, SettingsError
from webhook.sources import topologyfiles

_POD_GROUPS = (ResourceRule(("CREATE",), (GROUP,), ("podgroups",), ("*",)),)


def topology_rule(settings: Settings, catalog: Catalog, *, clustered: bool = True) -> Rule:
    """The rule for annotations. clustered: see `topology_options`. Raises SettingsError."""
    chosen = settings.topology
    options = topology_options(settings, clustered=clustered)
    check_default(chosen.default, catalog)
    placement = rule.TopologyPlacement(catalog, options)
    rows = list(options.workloads.values())
    has_default = bool(chosen.default.topology and chosen.default.preferred)
    conditions = () if has_default else (matchconditions.topology_is_mentioned(rows),)
    written = [row for row in rows if row.changes != "never"]
    # By default it fails open: controllers update annotated Pods and Jobs, and placement does not affect security.
    is_strict = chosen.action == chosen.unapplied == "deny"
    judged = list(with_templates(settings).values())
    wider = () if has_default else (matchconditions.topology_is_mentioned(judged, schemes=True),)
    unread = [kind for kind in sorted(warning.UNREAD) if kind not in options.workloads]
    reach = (
        *resources(judged),
        *(ResourceRule(WRITES, (group,), (plural(kind),)) for group, kind in (mention.POD_GROUP, *unread)),
    )
    verdict = replace(
        validation("topology", reach, chosen.action, wider), failure_policy="Fail" if is_strict else "Ignore"
    )
    hooks = [mutation("topology", resources(written), conditions), verdict]
    if verdict.failure_policy == failure_policy(settings.tolerations.action) and settings.tolerations.action != "off":
        hooks = [part for hook in hooks for part in _with_pods_apart(hook)]
    if schedules_workloads(settings):
        hooks.append(mutation("gangs", _POD_GROUPS))
    return Rule(
        rule.RULE,
        tuple(replace(hook, scope="*") if hook.group == "topology" else hook for hook in hooks),
        chosen.action,
        rule.reads(rows),
        chosen.namespace_selector.label_selector,
        validate=placement.validate,
        mutate=placement.mutate,
    )


def _with_pods_apart(hook: Hook) -> Iterator[Hook]:
    """The hook without new Pods, and one for these in the entry that asks about them anyway.

    The API server converts an object anew for each entry, which costs it more than any condition.
    """
    about = matchconditions.topology_is_mentioned((), schemes=hook.phase == "validate")
    conditions = (about,) if hook.conditions else ()
    yield replace(hook, group="pods", resources=PODS, conditions=conditions)
    without = (replace(rule, resources=tuple(r for r in rule.resources if r != "pods")) for rule in hook.resources)
    updates = replace(PODS[0], operations=("UPDATE",))
    yield replace(hook, resources=(*(rule for rule in without if rule.resources), updates))


def topology_objects_rule(settings: Settings, catalog: Catalog) -> Rule:
    """The rule for Topology objects."""
    chosen = settings.topology
    made = objects.TopologyObjects(catalog, chosen.deletion)
    operations = (*WRITES, *(("DELETE",) if chosen.deletion != "off" else ()))
    resources = [
        ResourceRule(operations, (group,), tuple(map(plural, kinds))) for group, kinds in document.KINDS.items()
    ]
    if chosen.deletion != "off":
        resources.append(ResourceRule(("UPDATE", "DELETE"), (document.KUEUE,), ("resourceflavors",)))
    # What cannot work is refused, but nothing that runs depends on it: only a wish to keep what is named fails closed.
    strict = chosen.action == chosen.deletion == "deny"
    hook = replace(validation("topologies", tuple(resources), "deny" if strict else "warn"), scope="Cluster")
    return Rule(objects.RULE, (hook,), chosen.action, objects.READS, validate=made.validate)


def topologies(settings: Settings) -> Catalog:
    """The topologies from settings and files, without the cluster's. Raises SettingsError."""
    own = (
        document.make(
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


def topology_options(settings: Settings, *, clustered: bool = True) -> Options:
    """The options for topology annotations from the settings. Raises SettingsError.

    clustered: whether there is a cluster, in which a placer opens the gates of Pods.
    """
    chosen = settings.topology
    default = chosen.default
    return Options(
        workloads={kind: row for kind, row in with_templates(settings).items() if row.makes_pods},
        schedulers=Schedulers(chosen.schedulers.reading, chosen.schedulers.labels, chosen.schedulers.ignoring),
        accelerators=accelerators(settings),
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
