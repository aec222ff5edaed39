"""The section `topology` of the configuration."""

from __future__ import annotations

from typing import Any, Self

from pydantic import Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from policies.engine.request import JsonObject
from policies.engine.violation import quote
from policies.topology import placement
from policies.topology.annotation import Schedulers
from policies.topology.catalog import Catalog
from policies.topology.constraint import LOWEST, USUAL, Options, Way
from policies.topology.document import TopologyError, make
from webhook.configuration.fields import (
    TOLD,
    DenyOrWarn,
    Globs,
    Many,
    OnOff,
    RuleAction,
    SettingsError,
    Strings,
)
from webhook.configuration.fields import Model as _Model
from webhook.configuration.selector import Selector


class LevelSettings(_Model):
    """A level: a node label key, or a map with an alias."""

    node_label: str = Field(description="Key of the label that Nodes of one domain share.")
    alias: str = Field("", description="Further name of the level.")

    @model_validator(mode="before")
    @classmethod
    def _key_alone(cls, value: Any) -> Any:
        return value if isinstance(value, dict | LevelSettings) else {"nodeLabel": value}

    @property
    def written(self) -> str | JsonObject:
        """The level as people write it."""
        return {"nodeLabel": self.node_label, "alias": self.alias} if self.alias else self.node_label


class OwnTopology(_Model):
    """A topology beside the built-in ones."""

    name: str = Field(min_length=1, description="Name.")
    levels: Many[LevelSettings] = Field(
        description="Levels, farthest first: node label keys, or maps of nodeLabel and alias."
    )
    node_requirement: Selector = Field(Selector(), description="Label selector of Nodes that Pods may be placed on.")
    pool: Selector = Field(Selector(), description="Label selector of the Nodes that it is for; empty: unspecified.")

    @model_validator(mode="after")
    def _is_a_topology(self) -> Self:
        try:
            make(self.name, [level.written for level in self.levels], "")
        except TopologyError as error:
            details = [
                InitErrorDetails(type=PydanticCustomError(TOLD, "{problem}", {"problem": problem}), loc=at, input=None)
                for at, problem in error.problems
            ]
            raise ValidationError.from_exception_data(self.name, details) from None
        return self


class DefaultPlacement(_Model):
    """Defaults for what no annotation says."""

    topology: str = Field("", description="Topology of placements that name none; empty for none.")
    preferred: str = Field(
        "lowest",
        description="Level that distributed workloads without annotations prefer; lowest for the last above a Node.",
    )
    namespace_selector: Selector = Field(Selector(), description="Namespaces in which these defaults apply.")


class WaySettings(_Model):
    """Who may keep the Pods of a gang together; the first entry that matches counts, else all."""

    topologies: Globs = Field(("*",), description="Names of topologies, as globs.")
    namespace_selector: Selector = Field(Selector(), description="Namespaces.")
    ways: Many[Way] = Field(
        USUAL,
        description="kueue; workload: Kubernetes' own workload scheduling; gate: Pods wait behind a gate until all of "
        "them fit into one domain; affinity: Pod affinity, by which Pods are placed one by one.",
    )


class SchedulerSettings(_Model):
    """Schedulers that are not Kubernetes' own, by name (globs) or by a label of the workload or Pod."""

    reading: Globs = Field(Schedulers().reading, description="Schedulers that read the annotations themselves.")
    labels: Strings = Field(Schedulers().labels, description="Labels that assign a Pod to such a scheduler.")
    ignoring: Globs = Field(Schedulers().ignoring, description="Schedulers that ignore node affinity.")


class TopologySettings(_Model):
    """Topology annotations, by which the Pods of a gang start together."""

    action: RuleAction = Field("deny", description="What happens on a wrong annotation; off disables the rule.")
    namespace_selector: Selector = Field(Selector(), description="Namespaces whose workloads are checked and changed.")
    preferred_not_more_specific: DenyOrWarn = Field(
        "deny", description="A preferred placement that is not more specific than the required one: deny or warn."
    )
    unapplied: DenyOrWarn = Field(
        "warn", description="A Pod or template that lacks its gate or its annotations at /validate: deny or warn."
    )
    workload_scheduling: OnOff = Field(
        "off",
        description="Whether Kubernetes itself places Jobs with a required level, where its feature gates are on.",
    )
    placement: Many[WaySettings] = Field((), description=WaySettings.__doc__)
    autoscaling: OnOff = Field(
        "on",
        description="on: a gang that no domain of the Nodes can hold is kept together by Pod affinity, which an "
        "autoscaler sees; off: it is refused.",
    )
    settle_seconds: float = Field(
        2.0,
        gt=0,
        description="How long after its first Pod a gang starts of which it is not known whether more Pods come, or "
        "that only prefers a level.",
    )
    patience_seconds: float = Field(
        900.0,
        gt=0,
        description="How long a gang lets others pass for which there is room; then a domain is kept free for it.",
    )
    deletion: RuleAction = Field(
        "warn",
        description="What happens when a Topology object that workloads name goes or changes; off where action is.",
    )
    facts: str = Field(
        "",
        description="ConfigMap in cluster.namespace that is kept up to date with the domains, Nodes and GPUs of each "
        "topology, for policies to read as params; empty for none.",
    )
    default: DefaultPlacement = Field(DefaultPlacement(), description=DefaultPlacement.__doc__)
    topologies: Many[OwnTopology] = Field((), description=OwnTopology.__doc__)
    files: Strings = Field(
        (), description="Files and directories with topologies in the form of KAI, of Kueue or of Run:ai's API."
    )
    topograph_prefixes: Strings = Field(
        (), description="Prefixes of keys that Topograph was told to write; it shortens values over 63 characters."
    )
    pool_keys: Strings = Field(Options({}).pool_keys, description="Node labels by which workloads name a node pool.")
    schedulers: SchedulerSettings = Field(SchedulerSettings(), description=SchedulerSettings.__doc__)


def check_default(default: DefaultPlacement, catalog: Catalog) -> None:
    """Raises SettingsError for an unknown level of a topology. An unknown topology may be in the cluster."""
    topology = catalog.find(default.topology)
    if topology is None or default.preferred in ("", LOWEST):
        return
    try:
        placement.parse(default.preferred, topology)
    except placement.PlacementError as error:
        told = f"topology.default.preferred: {quote(default.preferred)} {error}"
        raise SettingsError(" ".join(told.split())) from None
