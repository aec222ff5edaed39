"""The rules in force, made from the settings: the built-in ones, and those of policies and packs."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from policies import guard, labels, tolerations
from policies.engine.rule import PolicyException, Rule
from policies.engine.ruleset import RuleSet
from policies.engine.safety import SYSTEM_NAMESPACES, Safety
from policies.engine.violation import NO_HELP, Help
from policies.selectors import rule as selectors
from policies.topology import objects, rule
from policies.topology.topology import Catalog
from webhook import refused
from webhook.configuration.builtinrules import (
    enforces_labels,
    follows_nodes,
    follows_topologies,
    guard_rule,
    label_exceptions,
    labels_policy,
    labels_rule,
    schedules_workloads,
    selectors_rule,
    sunk_rule,
    tolerations_rule,
    topologies,
    topology_objects_rule,
    topology_options,
    topology_rule,
    workload_table,
)
from webhook.configuration.settings import Settings, SettingsError
from webhook.sources import packfiles

if TYPE_CHECKING:
    from policies.admissionpolicy.documents.exception import WrittenException
    from policies.admissionpolicy.evaluation.compilation import Compile
    from policies.admissionpolicy.model import Policy
    from webhook.sources.policyfiles import PolicyFiles
    from webhook.sources.policyset import Native

__all__ = [
    "BUILT_IN_RULES",
    "NO_POLICIES",
    "PolicyRules",
    "build",
    "enforces_labels",
    "follows_nodes",
    "follows_topologies",
    "label_exceptions",
    "labels_policy",
    "of_policies",
    "reserved",
    "safety",
    "schedules_workloads",
    "topologies",
    "topology_options",
    "unknown_names",
    "uses_policies",
    "workload_table",
]

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
    from policies.admissionpolicy.evaluation.parameters import NO_PARAMETERS  # noqa: PLC0415 - as above
    from policies.admissionpolicy.rules import mutatingrule, validatingrule  # noqa: PLC0415 - nothing else needs the CEL engine
    from webhook.sources import packs  # noqa: PLC0415 - as above

    loaded, names = files.loaded, _names(files)
    chosen, workloads = compile_ or partial(compile_policy, release=files.release), workload_table(settings)
    given = (*exceptions(settings), *(written.value for written in loaded.exceptions))
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
    return RuleSet(rules, written, safety(settings, control_plane_namespaces), help_of(settings))


def help_of(settings: Settings) -> Help:
    """Where refusals are explained; the pages are read only if there is an address for them."""
    return Help(settings.help.url, refused.sections()) if settings.help.url else NO_HELP


def safety(settings: Settings, control_plane_namespaces: Iterable[str] = ()) -> Safety:
    """The essential writes.

    control_plane_namespaces: those with the label of the control plane. It is reserved, so no tenant can set it.
    """
    chosen, own = settings.safety, settings.cluster.namespace
    names = dict.fromkeys((*SYSTEM_NAMESPACES, *chosen.namespaces, *sorted(control_plane_namespaces)))
    resources = ((group, name) for name, _, group in (resource.partition(".") for resource in chosen.resources))
    return Safety(own, tuple(name for name in names if name != own), tuple(resources), chosen.users)
