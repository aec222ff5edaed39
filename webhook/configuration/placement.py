"""The section `topology` of the configuration."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from policies.engine.request import JsonObject
from policies.engine.violation import quote
from policies.topology import placement
from policies.topology.annotation import Schedulers
from policies.topology.catalog import Catalog
from policies.topology.constraint import LOWEST, Options
from policies.topology.document import TopologyError, make
from policies.topology.way.permission import USUAL, Way
from webhook.configuration.fields import (
    TOLD,
    DenyOrWarn,
    Globs,
    Many,
    OnOff,
    RuleAction,
    SettingsError,
    Strings,
    UnknownOrOff,
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
    """Who may keep the Pods of a gang together; the first entry that matches counts, else all but labels."""

    topologies: Globs = Field(("*",), description="Names of topologies, as globs.")
    namespace_selector: Selector = Field(Selector(), description="Namespaces.")
    ways: Many[Way] = Field(
        USUAL,
        description="kueue; workload; domain: one is chosen and written as node affinity; affinity: Pod affinity "
        "where none can be chosen; labels: Nodes need the label, which keeps no two Pods together.",
    )


class SchedulerSettings(_Model):
    """Schedulers that are not Kubernetes' own, by name (globs) or by a label of the workload or Pod."""

    reading: Globs = Field(Schedulers().reading, description="Schedulers that read the annotations themselves.")
    labels: Strings = Field(Schedulers().labels, description="Labels that assign a Pod to such a scheduler.")
    ignoring: Globs = Field(Schedulers().ignoring, description="Schedulers that ignore node affinity.")


class TopologySettings(_Model):
    """Topology annotations, which become node affinity."""

    action: RuleAction = Field("deny", description="What happens on a wrong annotation; off disables the rule.")
    namespace_selector: Selector = Field(Selector(), description="Namespaces whose workloads are checked and changed.")
    preferred_not_more_specific: DenyOrWarn = Field(
        "deny", description="A preferred placement that is not more specific than the required one: deny or warn."
    )
    unapplied: DenyOrWarn = Field(
        "warn", description="A required placement found missing from the node affinity at /validate: deny or warn."
    )
    workload_scheduling: OnOff = Field(
        "off",
        description="Whether Kubernetes itself places Jobs with a required level, where its feature gates are on.",
    )
    placement: Many[WaySettings] = Field((), description=WaySettings.__doc__)
    full: Literal["pin", "wait", "refuse"] = Field(
        "pin",
        description="A gang for which no domain has room now: pin it to the best one, let a Job wait suspended (others "
        "are pinned), or refuse it.",
    )
    autoscaling: UnknownOrOff = Field(
        "unknown",
        description="off: no Nodes come that are not there yet, so a gang that no domain can ever hold is refused.",
    )
    deletion: RuleAction = Field(
        "warn",
        description="What happens when a Topology object that workloads name goes or changes; off where action is.",
    )
    inventory: OnOff = Field(
        "on",
        description="Whether Nodes and Pods of the cluster are followed, so that domains can be chosen: on or off.",
    )
    stale_seconds: float = Field(
        300.0,
        ge=180,
        description="No domain is chosen if the Nodes or Pods are not known to be up to date for so long.",
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
