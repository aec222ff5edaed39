"""Makes the rules `tolerations` and `sunk` from the settings."""

from __future__ import annotations

from policies import matchconditions, tolerations
from policies.engine.match import ResourceRule
from policies.engine.rule import Rule
from webhook.configuration.rules.hook import PODS, WRITES, mutation, validation
from webhook.configuration.rules.workloads import accelerators
from webhook.configuration.settings import Settings

_DAEMON_SETS = (ResourceRule(WRITES, ("apps",), ("daemonsets",), ("v1",)),)


def tolerations_rule(settings: Settings) -> Rule:
    """The rule for CPU Pods and DaemonSets."""
    chosen = settings.tolerations
    rule = tolerations.CpuToleration(accelerators(settings), chosen.daemon_sets)
    concerned = (
        matchconditions.pod_lacks_cpu_toleration(),
        matchconditions.pod_is_no_mirror(),
        matchconditions.pod_requests_no_accelerator(rule.accelerators),
    )
    # Few Pods are written with the toleration, so a condition would cost the API server more than the calls it spares.
    hooks = [mutation("pods", PODS), validation("pods", PODS, chosen.action, concerned)]
    if chosen.daemon_sets == "inject":
        hooks.append(mutation("daemonsets", _DAEMON_SETS))
    if chosen.daemon_sets != "off":
        hooks.append(validation("daemonsets", _DAEMON_SETS, chosen.action))
    return Rule(
        tolerations.RULE,
        tuple(hooks),
        chosen.action,
        tolerations.READS,
        chosen.namespace_selector.label_selector,
        validate=rule.validate,
        mutate=rule.mutate,
    )


def sunk_rule(settings: Settings) -> Rule:
    """The rule for DaemonSets on SUNK Nodes."""
    chosen = settings.sunk
    rule = tolerations.SunkDaemonSets(chosen.daemon_sets, chosen.node_selector, settings.organization.reserved_hash)
    hooks = [validation("daemonsets", _DAEMON_SETS, chosen.action)]
    if chosen.daemon_sets == "inject":
        hooks.append(mutation("daemonsets", _DAEMON_SETS))
    return Rule(
        tolerations.SUNK_RULE,
        tuple(hooks),
        "off" if chosen.daemon_sets == "off" else chosen.action,
        tolerations.SUNK_READS,
        chosen.namespace_selector.label_selector,
        validate=rule.validate,
        mutate=rule.mutate,
    )
