"""From the settings to the rules in force: which there are, what they are for, what the API server is told of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from policies import labels, matchcondition, sunk, tolerations
from policies.accelerator import Accelerators
from policies.exception import PolicyException
from policies.match import LabelSelector, ResourceRule, SelectorRequirement
from policies.requester import Exemptions
from policies.rule import Action, FailurePolicy, Hook, Rule
from policies.ruleset import RuleSet
from policies.workload import BUILT_IN, Workload, table, workload
from webhook.settings import ExceptionSettings, LabelExceptionSettings, Selector, Settings, SettingsError

if TYPE_CHECKING:
    from webhook.policyfiles import PolicyFiles

_WRITES = ("CREATE", "UPDATE")
_EVERYTHING = (ResourceRule(_WRITES, ("*",), ("*/*",)),)
_PODS = (ResourceRule(("CREATE",), ("",), ("pods",), ("v1",)),)
_DAEMON_SETS = (ResourceRule(_WRITES, ("apps",), ("daemonsets",), ("v1",)),)


def build(
    settings: Settings, control_plane_namespaces: Iterable[str] = (), policies: PolicyFiles | None = None
) -> RuleSet:
    """The rules that the settings ask for, and those of policy files.

    control_plane_namespaces: those found in the cluster, for the match conditions; the rules themselves look them up.
    Raises SettingsError where settings contradict each other.
    """
    try:
        workloads = table((*BUILT_IN, *_workloads(settings)))
    except ValueError as error:
        raise SettingsError(f"workloads: {error}") from None
    exceptions = [_exception(index, exception) for index, exception in enumerate(settings.exceptions)]
    rules = [
        _labels_rule(settings, workloads, control_plane_namespaces),
        _tolerations_rule(settings),
        _sunk_rule(settings),
    ]
    built_in = [rule.name for rule in rules]
    if policies is not None:
        exceptions += [each.value for each in policies.loaded.exceptions]
        rules += _policy_rules(policies, workloads, built_in, exceptions)
    _check_names(settings, policies, rules)
    return RuleSet(rules, exceptions)


def _check_names(settings: Settings, policies: PolicyFiles | None, rules: Iterable[Rule]) -> None:
    """Whether there is all that exceptions name; a policy without a binding is no rule. Raises SettingsError."""
    loaded = () if policies is None else policies.loaded.policies
    known = list(dict.fromkeys([*(rule.name for rule in rules), *(policy.name for policy in loaded)]))
    problems = [
        f"exceptions: there is no rule {name!r}; known are {', '.join(known)}"
        for exception in settings.exceptions
        for name in exception.rules
        if name not in known
    ]
    for written in () if policies is None else policies.loaded.exceptions:
        problems += map(str, written.unknown(known))
    if problems:
        raise SettingsError("\n".join(problems))


def _policy_rules(
    files: PolicyFiles,
    workloads: Mapping[tuple[str, str], Workload],
    built_in: Iterable[str],
    exceptions: Iterable[PolicyException],
) -> list[Rule]:
    from policies.admissionpolicy import mutatingrule, policyrule  # noqa: PLC0415 - nothing else needs the CEL engine

    taken = sorted({policy.name for policy in files.loaded.policies} & {*built_in, mutatingrule.NAME})
    if taken:
        raise SettingsError(f"policies: {taken[0]!r} is the name of a built-in rule; give the policy another one")
    loaded = files.loaded
    return [
        *mutatingrule.rules(loaded.policies, loaded.bindings, files.parameters, files.schema, exceptions),
        *policyrule.rules(loaded.policies, loaded.bindings, files.parameters, workloads),
    ]


def _workloads(settings: Settings) -> Iterable[Workload]:
    for row in settings.workloads:
        yield workload(
            row.group, row.kind, row.templates, jobs=row.jobs, claims=row.claims, node_labels=row.node_labels
        )


def _labels_rule(
    settings: Settings, workloads: Mapping[tuple[str, str], Workload], control_plane_namespaces: Iterable[str]
) -> Rule:
    exceptions = [_label_exception(exception) for exception in settings.labels.exceptions]
    if settings.organization.id:
        exceptions.append(labels.organization(settings.organization.id))
    more = settings.labels.exempt
    built_in = Exemptions()
    exempt = Exemptions(
        users=(*built_in.users, *more.users),
        groups=(*built_in.groups, *more.groups),
        service_accounts=(*built_in.service_accounts, *more.service_accounts),
    )
    configured = tuple(f"{namespace}/*" for namespace in more.control_plane_namespaces)
    with_configured = replace(exempt, service_accounts=(*exempt.service_accounts, *configured))
    guard = labels.LabelGuard(workloads, exceptions, with_configured)
    namespaces = sorted({*control_plane_namespaces, *more.control_plane_namespaces})
    requester = matchcondition.requester_is_not_exempt(exempt, namespaces)
    hooks = tuple(
        Hook(
            "validate",
            "labels",
            _EVERYTHING,
            _failure_policy(settings.labels.action),
            (
                requester,
                matchcondition.reserved_label_changes(workloads.values(), exceptions, cluster_scope=cluster_scope),
            ),
            cluster_scope=cluster_scope,
        )
        for cluster_scope in (False, True)
    )
    return Rule(
        labels.RULE,
        hooks,
        settings.labels.action,
        guard.reads,
        _selector(settings.labels.namespace_selector),
        validate=guard.validate,
    )


def _tolerations_rule(settings: Settings) -> Rule:
    chosen = settings.tolerations
    accelerators = Accelerators(chosen.accelerators.resources, chosen.accelerators.device_classes)
    rule = tolerations.CpuToleration(accelerators, chosen.daemon_sets)
    failing = _failure_policy(chosen.action)
    pods = (matchcondition.pod_is_no_mirror(), matchcondition.pod_lacks_cpu_toleration())
    hooks = [
        Hook("mutate", "pods", _PODS, "Ignore", pods),
        Hook("validate", "pods", _PODS, failing, pods),
    ]
    if chosen.daemon_sets == "inject":
        hooks.append(Hook("mutate", "daemonsets", _DAEMON_SETS, "Ignore"))
    if chosen.daemon_sets != "off":
        hooks.append(Hook("validate", "daemonsets", _DAEMON_SETS, failing))
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
    hooks = [Hook("validate", "daemonsets", _DAEMON_SETS, _failure_policy(chosen.action))]
    if chosen.daemon_sets == "inject":
        hooks.append(Hook("mutate", "daemonsets", _DAEMON_SETS, "Ignore"))
    return Rule(
        sunk.RULE,
        tuple(hooks),
        "off" if chosen.daemon_sets == "off" else chosen.action,
        sunk.READS,
        _selector(chosen.namespace_selector),
        validate=rule.validate,
        mutate=rule.mutate,
    )


def _failure_policy(action: Action) -> FailurePolicy:
    """What follows where a rule cannot be asked: one that refuses fails closed, one that only tells fails open."""
    return "Fail" if action == "deny" else "Ignore"


def _exception(index: int, exception: ExceptionSettings) -> PolicyException:
    """An entry of `exceptions:`, which has its place in the configuration for a name."""
    fields = dict(exception)
    return PolicyException(
        f"exceptions[{index}]", **{**fields, "object_selector": _selector(exception.object_selector)}
    )


def _label_exception(exception: LabelExceptionSettings) -> labels.LabelException:
    kinds = ((group, kind) for kind, _, group in (name.partition(".") for name in exception.kinds))
    return labels.LabelException(exception.key, frozenset(kinds), frozenset(exception.values))


def _selector(selector: Selector) -> LabelSelector:
    equal = (SelectorRequirement(key, "In", (value,)) for key, value in selector.match_labels.items())
    others = (SelectorRequirement(r.key, r.operator, r.values) for r in selector.match_expressions)
    return LabelSelector((*equal, *others))
