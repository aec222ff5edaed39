"""Makes the rule `labels` from the settings."""

from __future__ import annotations

from collections.abc import Iterable

from policies import labels, matchconditions
from policies.engine.match import ResourceRule
from policies.engine.rule import Hook, Rule, Scope
from webhook.configuration.rules.hook import failure_policy
from webhook.configuration.rules.requesters import exempt
from webhook.configuration.rules.workloads import workload_table
from webhook.configuration.settings import LabelExceptionSettings, Requesters, Settings

_EVERYTHING = (ResourceRule(("CREATE", "UPDATE"), ("*",), ("*/*",)),)


def label_exceptions(settings: Settings) -> list[labels.LabelException]:
    """The reserved labels that people may set."""
    exceptions = [_label_exception(exception) for exception in settings.labels.exceptions]
    if settings.organization.id:
        exceptions.append(labels.organization(settings.organization.id))
    return exceptions


def labels_rule(settings: Settings, control_plane_namespaces: Iterable[str]) -> Rule:
    """The rule."""
    workloads = workload_table(settings)
    exceptions = label_exceptions(settings)
    exempt_ones, not_exempt = exempt(settings, Requesters(), control_plane_namespaces)
    label_guard = labels.LabelGuard(workloads, exceptions, exempt_ones)
    scopes: tuple[Scope, ...] = ("Namespaced", "Cluster")
    hooks = tuple(
        Hook(
            "validate",
            "labels",
            _EVERYTHING,
            failure_policy(settings.labels.action),
            (
                matchconditions.reserved_label_changes(
                    workloads.values(), exceptions, cluster_scope=scope == "Cluster"
                ),
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
        settings.labels.namespace_selector.label_selector,
        validate=label_guard.validate,
    )


def _label_exception(exception: LabelExceptionSettings) -> labels.LabelException:
    kinds = ((group, kind) for kind, _, group in (name.partition(".") for name in exception.kinds))
    return labels.LabelException(exception.key, frozenset(kinds), frozenset(exception.values))
