"""Makes the rules in force from the settings, with their hooks for the API server."""

from __future__ import annotations

from collections.abc import Iterable

from policies.engine.ruleset import RuleSet
from policies.engine.violation import NO_HELP, Help
from policies.topology.catalog import Catalog
from webhook import refused
from webhook.configuration import safety
from webhook.configuration.rules.guard import guard_rule
from webhook.configuration.rules.labels import labels_rule
from webhook.configuration.rules.nodes import sunk_rule, tolerations_rule
from webhook.configuration.rules.policies import NO_POLICIES, PolicyRules, exceptions
from webhook.configuration.rules.selectors import selectors_rule
from webhook.configuration.rules.topology import topologies, topology_objects_rule, topology_rule
from webhook.configuration.settings import Settings


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
    rules += [selectors_rule(settings, rules, policies.shipped), *policies.rules]
    written = (*exceptions(settings), *(exception.value for exception in policies.exceptions))
    return RuleSet(rules, written, safety.safety(settings, control_plane_namespaces), help_of(settings))


def help_of(settings: Settings) -> Help:
    """Where refusals are explained; the pages are read only if there is an address for them."""
    return Help(settings.help.url, refused.sections()) if settings.help.url else NO_HELP
