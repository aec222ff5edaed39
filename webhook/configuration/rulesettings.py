"""The sections of the configuration about rules, policies and packs, and what they apply to."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from policies.engine.request import JsonObject
from policies.engine.violation import quote
from policies.kubernetes.release import Release, named
from policies.kubernetes.spelling import did_you_mean
from policies.labels import EXCEPTIONS
from policies.objects.fieldpath import render
from policies.objects.workload import SHIPPED, TemplateChange, Workload, workload
from policies.podspec import Accelerators
from policies.topology import placement
from policies.topology.objects import TopologyError, make
from policies.topology.template import LOWEST, USUAL, Options, Schedulers, Way
from policies.topology.topology import Catalog
from webhook.configuration.fields import (
    TOLD,
    DaemonSets,
    DenyOrWarn,
    DenyWarnOff,
    FieldPaths,
    Globs,
    InnerPaths,
    KindsAndNames,
    Many,
    Model,
    OnOff,
    PackMode,
    ReleaseName,
    Resources,
    RuleAction,
    Selector,
    SettingsError,
    Strings,
    WarnAuditOff,
)
from webhook.sources import packfiles


class LabelExceptionSettings(Model):
    """A reserved label that people may set."""

    key: str = Field(min_length=1, description="Label key.")
    kinds: Annotated[Strings, Field(min_length=1)] = Field(
        description="Kinds, as Pod or NodePool.compute.coreweave.com; Pod includes pod templates."
    )
    values: Strings = Field((), description="Values allowed; empty allows any.")


class Requesters(Model):
    """Exempt requesters, beside those of labels.exempt. Exact names, or globs with * and ?."""

    users: Globs = Field((), description="User names.")
    groups: Globs = Field((), description="Groups.")
    service_accounts: Globs = Field((), description="Service accounts, as namespace/name.")


class Exempt(Requesters):
    """Exempt requesters, beside the cluster's own components. Exact names, or globs with * and ?."""

    control_plane_namespaces: Strings = Field(
        (), description="Namespaces of the control plane: their accounts pass also while the service is down."
    )


class LabelsSettings(Model):
    """The guard of reserved labels."""

    action: RuleAction = Field("deny", description="What happens on a violation: deny, warn, audit or off.")
    enforced_by: Literal["auto", "policy", "static", "webhook"] = Field(
        "auto",
        description="Who refuses. policy: the API server itself, also while the service is down; static: the same, by "
        "a file of export static; webhook: an entry that fails closed; auto: policy from Kubernetes 1.37 on. "
        "Without registration.apply it is static or webhook.",
    )
    namespace_selector: Selector = Field(Selector(), description="Namespaces whose objects are checked.")
    exceptions: Many[LabelExceptionSettings] = Field(
        tuple(LabelExceptionSettings(key=exception.key, kinds=("Pod",)) for exception in EXCEPTIONS),
        description="Reserved labels that people may set. A list given here replaces this one.",
    )
    exempt: Exempt = Field(Exempt(), description="More exempt requesters.")
    trusted: KindsAndNames = Field(
        (),
        description="Policies and definitions that may write reserved labels, as kind/name, with * and ?: "
        "MutatingAdmissionPolicy/cks-*, CustomResourceDefinition/*.example.org.",
    )


class GuardSettings(Model):
    """Namespaces and taints that only the cloud may change. It fails open."""

    namespaces: DenyWarnOff = Field(
        "warn", description="Edits and deletions of Namespaces of the control plane: deny, warn or off."
    )
    taints: DenyWarnOff = Field(
        "warn",
        description="Removals of Nodes' taints node.coreweave.cloud/reserved, is_gpu, is_cpu_compute and "
        "sunk.coreweave.com/lock: deny, warn or off.",
    )
    admission: DenyWarnOff = Field(
        "warn",
        description="What may write labels unseen, in files of export static: deny refuses others' mutating policies, "
        "mutating webhooks and conversions; warn names policies that name reserved labels; or off.",
    )
    exempt: Requesters = Field(Requesters(), description="More exempt requesters, such as SUNK's accounts.")


class AcceleratorSettings(Model):
    """What counts as an accelerator."""

    resources: Globs = Field(Accelerators().resources, description="Extended resources, as globs.")
    device_classes: Strings = Field(
        Accelerators().device_classes, description="Device classes of dynamic resource claims."
    )


class TolerationsSettings(Model):
    """The CPU toleration."""

    action: RuleAction = Field(
        "warn", description="What happens when /validate finds the toleration missing; off disables the rule."
    )
    namespace_selector: Selector = Field(Selector(), description="Namespaces whose Pods and DaemonSets are changed.")
    daemon_sets: DaemonSets = Field("inject", description="DaemonSet templates: inject, warn or off.")
    accelerators: AcceleratorSettings = Field(AcceleratorSettings(), description="What makes a Pod a GPU Pod.")


class SunkSettings(Model):
    """DaemonSets on SUNK Nodes."""

    action: RuleAction = Field(
        "warn", description="What happens when the toleration is missing and not injected; off disables the rule."
    )
    namespace_selector: Selector = Field(Selector(), description="Namespaces whose DaemonSets are checked.")
    daemon_sets: DaemonSets = Field("warn", description="inject, warn or off.")
    node_selector: dict[str, str] = Field(
        {}, description="Labels of SUNK Nodes; empty: those with a sunk.coreweave.com/ taint or label."
    )


class SelectorsSettings(Model):
    """Node selectors, node affinity and topology keys."""

    action: WarnAuditOff = Field("warn", description="What happens on a mistake: warn, audit or off.")
    namespace_selector: Selector = Field(Selector(), description="Namespaces whose objects are checked.")


class Organization(Model):
    """The organization whose cluster this is."""

    id: str = Field("", description="Value that users may give the label ns.coreweave.cloud/org on their Namespaces.")
    reserved_hash: str = Field(
        "", description="Value of the Nodes' taint node.coreweave.cloud/reserved; empty: that of the Nodes."
    )


class Policies(Model):
    """Admission policies in Kubernetes' own form, which apply besides the built-in rules."""

    directories: Strings = Field(
        (), description="Files and directories with policies, bindings and parameters; watched for changes."
    )
    config_maps: bool = Field(
        True, description="In a cluster, also ConfigMaps labelled cks-admission.dev/policies=true in cluster.namespace."
    )
    native: bool = Field(
        True, description="In a cluster, check pod templates by its own policies with cks-admission.dev/derive: true."
    )
    kubernetes: ReleaseName = Field(
        "",
        description="Release of Kubernetes that judges policies, such as 1.36; empty: that of the API server, without "
        "a cluster the newest.",
    )
    slow: Literal["keep", "skip"] = Field(
        "keep",
        description="A policy that is over its time 3 times in a minute: keep it, or skip it as failed for 5 minutes "
        "or until policies change.",
    )
    shadow: Strings = Field(
        (),
        description="Files and directories with shadow policies, which decide nothing: what they would change is "
        "counted and recorded; watched for changes.",
    )

    @property
    def release(self) -> Release | None:
        """The release that is named; None if none is."""
        return named(self.kubernetes) if self.kubernetes else None


def written(row: Workload) -> JsonObject:
    """A kind that is shipped, as people would write it."""
    places = {
        "templates": row.templates,
        "jobs": row.jobs,
        "claims": row.claims,
        "nodeLabels": row.node_labels,
        "podLabels": row.pod_labels,
    }
    paths = {name: [render(pattern) for pattern in patterns] for name, patterns in places.items() if patterns}
    return {"group": row.group, "kind": row.kind, **paths, "changes": row.changes}


class WorkloadSettings(Model):
    """A kind of workload beside the built-in ones: DynamoGraphDeployment or NIMService by its name, others by paths."""

    group: str = Field(description="API group; empty for the core group.")
    kind: str = Field(min_length=1, description="Kind.")
    templates: FieldPaths = Field((), description="Paths of pod templates.")
    jobs: InnerPaths = Field((), description="Paths of templates of objects between it and its Pods.")
    claims: InnerPaths = Field((), description="Paths of claim templates.")
    node_labels: InnerPaths = Field((), description="Paths of maps of labels that are set on Nodes.")
    pod_labels: InnerPaths = Field((), description="Paths of maps of labels that are set on Pods.")
    changes: TemplateChange = Field(
        "create", description="When annotations of templates may be written: always, suspended, create or never."
    )

    @property
    def row(self) -> Workload:
        """The row of the table."""
        return workload(
            self.group, self.kind, self.templates, jobs=self.jobs, claims=self.claims, node_labels=self.node_labels,
            pod_labels=self.pod_labels, changes=self.changes,
        )  # fmt: skip

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        if row := next((row for row in SHIPPED if row.kind == value), None):
            return written(row)
        names = " and ".join(row.kind for row in SHIPPED)
        raise PydanticCustomError(
            TOLD, f"{quote(value)} is no kind that is shipped: {names} are; write others as a map"
        )


class ExceptionSettings(Model):
    """Lets requests pass rules until a date. Every list but rules matches everything when empty; globs are allowed."""

    rules: Annotated[Strings, Field(min_length=1)] = Field(
        description="Names of rules: labels, guard, tolerations, sunk, topology, topology-objects, selectors, or of "
        "policies."
    )
    reason: str = Field(min_length=1, description="Why; shown in the audit log.")
    until: Annotated[date, Field(strict=False)] = Field(description="Last day (UTC) on which it holds.")
    namespaces: Globs = Field((), description="Namespaces.")
    kinds: Globs = Field((), description="Kinds, as Pod or Deployment.apps.")
    names: Globs = Field((), description="Names.")
    users: Globs = Field((), description="User names.")
    groups: Globs = Field((), description="Groups; the user is in at least one.")
    object_selector: Selector = Field(
        Selector(), description="Labels of the object or the old object: matchLabels and matchExpressions."
    )


class SafetySettings(Model):
    """More essential writes, which no outage may stop. Policies judge them all the same."""

    namespaces: Strings = Field(
        (), description="Namespaces of components, such as calico-system; not kube-system, which always counts."
    )
    resources: Resources = Field(
        (),
        description="Resources that only components may write, such as ippools.whereabouts.cni.cncf.io; without a "
        "group it means the core group; never pods.",
    )
    users: Globs = Field((), description="Users who count as the control plane, as globs.")


def _text(value: object) -> object:
    """A parameter as a ConfigMap has it: numbers as text, lists with blanks between their items."""
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return " ".join(value)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Parameter = Annotated[
    str, BeforeValidator(_text), WithJsonSchema({"type": ["string", "integer", "array"], "items": {"type": "string"}})
]


class PackSettings(Model):
    """A pack: its mode, or a map with more."""

    SHORT: ClassVar[str] = "mode"

    mode: PackMode = Field("warn", description="enforce, warn, audit or off.")
    policies: dict[str, PackMode] = Field({}, description="Modes of single policies, by name.")
    parameters: dict[str, Parameter] = Field(
        {}, description="Values that replace those in the ConfigMaps of the pack: texts, numbers, or lists of texts."
    )

    @model_validator(mode="before")
    @classmethod
    def _mode_alone(cls, value: Any) -> Any:
        return value if isinstance(value, dict | PackSettings) else {"mode": value}


class PacksSettings(Model):
    """Shipped policies: enforce, warn, audit or off. A policy of your own with the same name takes the place of one."""

    interruptable_qos: PackSettings = Field(
        PackSettings(), alias="interruptable-qos", description="Interruptable workloads can be interrupted."
    )
    scheduling_safety: PackSettings = Field(
        PackSettings(), alias="scheduling-safety", description="Tolerations and node selectors do no harm."
    )
    sunk: PackSettings = Field(PackSettings(), description="Pods stay off Nodes that Slurm has locked.")

    @field_validator("*", mode="after")
    @classmethod
    def _is_shipped(cls, value: PackSettings, info: ValidationInfo) -> PackSettings:
        pack = str(cls.model_fields[str(info.field_name)].alias)
        if problems := list(_unknown(pack, value)):
            raise PydanticCustomError(TOLD, "{problems}", {"problems": "; ".join(problems)})
        return value

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The names of all packs."""
        return tuple(str(field.alias) for field in cls.model_fields.values())

    @property
    def by_name(self) -> dict[str, PackSettings]:
        """The packs by name."""
        return {str(field.alias): getattr(self, name) for name, field in type(self).model_fields.items()}

    @property
    def is_on(self) -> bool:
        """Whether a policy of any pack may be in force."""
        return any(mode != "off" for pack in self.by_name.values() for mode in (pack.mode, *pack.policies.values()))


def _unknown(pack: str, chosen: PackSettings) -> Iterator[str]:
    """A text for each name that the pack does not have."""
    if not (chosen.policies or chosen.parameters):
        return
    known = packfiles.names(pack)
    for what, given, names in (
        ("policy", chosen.policies, known.switches),
        ("parameter", chosen.parameters, known.parameters),
    ):
        for name in given:
            if name not in names:
                otherwise = f"it has {', '.join(names) or 'none'}"
                yield f"the pack has no {what} {name!r}; {did_you_mean(name, names, otherwise)}"


class LevelSettings(Model):
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


class OwnTopology(Model):
    """A topology beside the built-in ones."""

    name: str = Field(min_length=1, description="Name.")
    levels: Many[LevelSettings] = Field(
        description="Levels, farthest first: node label keys, or maps of nodeLabel and alias."
    )
    node_requirement: Selector = Field(Selector(), description="Label selector of Nodes that Pods may be placed on.")
    pool: Selector = Field(Selector(), description="Label selector of its Nodes; empty: unspecified.")

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


class DefaultPlacement(Model):
    """Defaults for workloads without annotations."""

    topology: str = Field("", description="Topology of placements that name none.")
    preferred: str = Field(
        "lowest",
        description="Level that distributed workloads without annotations prefer; lowest: the last above a Node.",
    )
    namespace_selector: Selector = Field(Selector(), description="Namespaces in which these defaults apply.")


class WaySettings(Model):
    """Who may keep the Pods of a gang together; the first entry that matches counts, else all."""

    topologies: Globs = Field(("*",), description="Names of topologies, as globs.")
    namespace_selector: Selector = Field(Selector(), description="Namespaces.")
    ways: Many[Way] = Field(
        USUAL,
        description="kueue; workload: Kubernetes' own workload scheduling; gate: Pods wait behind a gate until all of "
        "them fit into one domain; affinity: Pod affinity, by which Pods are placed one by one.",
    )


class SchedulerSettings(Model):
    """Schedulers that are not Kubernetes' own, by name (globs) or by a label of the workload or Pod."""

    reading: Globs = Field(Schedulers().reading, description="Schedulers that read the annotations themselves.")
    labels: Strings = Field(Schedulers().labels, description="Labels that assign a Pod to such a scheduler.")
    ignoring: Globs = Field(Schedulers().ignoring, description="Schedulers that ignore node affinity.")


class TopologySettings(Model):
    """Placement of gangs by topology annotations."""

    action: RuleAction = Field("deny", description="What happens on a wrong annotation; off disables the rule.")
    namespace_selector: Selector = Field(Selector(), description="Namespaces whose workloads are checked and changed.")
    preferred_not_more_specific: DenyOrWarn = Field(
        "deny", description="A preferred placement that is not more specific than the required one: deny or warn."
    )
    unapplied: DenyOrWarn = Field(
        "warn", description="A Pod or template that lacks its gate or annotations after mutation: deny or warn."
    )
    workload_scheduling: OnOff = Field(
        "off",
        description="Whether Kubernetes itself places Jobs with a required level, where its feature gates are on.",
    )
    placement: Many[WaySettings] = Field((), description=WaySettings.__doc__)
    autoscaling: OnOff = Field(
        "on",
        description="A gang that no domain can hold. on: it gets Pod affinity, which an autoscaler sees; off: it is "
        "refused.",
    )
    settle_seconds: float = Field(
        2.0,
        gt=0,
        description="How long a gang of unknown size, or one that only prefers a level, waits after its first Pod.",
    )
    patience_seconds: float = Field(
        900.0, gt=0, description="How long a gang lets others pass; then a domain is kept free for it."
    )
    deletion: RuleAction = Field(
        "warn",
        description="What happens when a Topology object that workloads name goes or changes; off if action is off.",
    )
    facts: str = Field(
        "",
        description="ConfigMap in cluster.namespace with the domains, Nodes and GPUs of each topology, for policies to "
        "read as params; empty: none.",
    )
    default: DefaultPlacement = Field(DefaultPlacement(), description=DefaultPlacement.__doc__)
    topologies: Many[OwnTopology] = Field((), description=OwnTopology.__doc__)
    files: Strings = Field(
        (), description="Files and directories with topologies in the form of KAI, of Kueue or of Run:ai's API."
    )
    topograph_prefixes: Strings = Field(
        (), description="Prefixes of keys that Topograph writes; it shortens values over 63 characters."
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
