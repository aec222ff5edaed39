"""The rules in force, made from the settings."""

from webhook.configuration.rules.labels import label_exceptions
from webhook.configuration.rules.policies import (
    BUILT_IN_RULES,
    NO_POLICIES,
    PolicyRules,
    of_policies,
    reserved,
    unknown_names,
    uses_policies,
)
from webhook.configuration.rules.ruleset import build
from webhook.configuration.rules.topology import (
    follows_nodes,
    follows_topologies,
    schedules_workloads,
    topologies,
    topology_options,
)
from webhook.configuration.rules.workloads import workload_table

__all__ = [
    "BUILT_IN_RULES",
    "NO_POLICIES",
    "PolicyRules",
    "build",
    "follows_nodes",
    "follows_topologies",
    "label_exceptions",
    "of_policies",
    "reserved",
    "schedules_workloads",
    "topologies",
    "topology_options",
    "unknown_names",
    "uses_policies",
    "workload_table",
]
