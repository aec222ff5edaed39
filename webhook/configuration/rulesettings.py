"""The types of the configuration's fields, and the sections about rules, policies and packs, and what they apply to."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from typing import Annotated, Any, ClassVar, Final, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import InitErrorDetails, PydanticCustomError

from policies.engine.match import LabelSelector, SelectorRequirement
from policies.engine.request import JsonObject
from policies.engine.rule import Action
from policies.engine.violation import quote
from policies.kubernetes.release import Release, named
from policies.kubernetes.spelling import did_you_mean
from policies.labels import EXCEPTIONS
from policies.objects.fieldpath import parse, render
from policies.objects.workload import SHIPPED, TemplateChange, Workload, workload
from policies.podspec import Accelerators
from policies.topology.objects import TopologyError, make
from policies.topology.template import USUAL, Options, Schedulers, Way
from webhook.sources import packfiles

T = TypeVar("T")
_RESOURCE = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-.a-z0-9]*[a-z0-9])?)?")
OWN_MESSAGE: Final = "message"
"""The type of an error whose text says already what was found."""


class SettingsError(Exception):
    """A configuration that cannot be used. The text has a line per mistake: file, line, key, what was found."""


class Model(BaseModel):
    """A section of the configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, strict=True)


def field(default: T, description: str | None, **limits: Any) -> T:
    """A key of a section with its default and its meaning for people. limits: those of pydantic's Field."""
    made: T = Field(default, description=description, **limits)
    return made


def _check(is_right: Callable[[str], object], problem: str) -> AfterValidator:
    """Refuses a text that is not right, and says what is."""

    def validate(text: str) -> str:
        if not is_right(text):
            raise ValueError(problem)
        return text

    return AfterValidator(validate)


def _path(text: str) -> str:
    parse(text)
    return text


def _quoted(value: object) -> object:
    """Refuse the release without quotes, of which YAML makes a number: 1.40 would be 1.4."""
    if isinstance(value, float):
        raise ValueError('write it in quotes, such as "1.36"')  # noqa: TRY004 - pydantic expects a ValueError
    return value


def _on_or_off(value: object) -> object:
    """Take the words on and off as people write them: without quotes YAML makes booleans of them."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


Glob = Annotated[str, _check(bool, "an empty glob matches nothing")]
FieldPath = Annotated[str, AfterValidator(_path)]
InnerPath = Annotated[
    str, _check(bool, "an empty path means the object itself, which is not allowed here"), AfterValidator(_path)
]
KindAndName = Annotated[
    str, _check(lambda text: all(text.partition("/")), "write kind/name, such as MutatingAdmissionPolicy/cks-*")
]
Resource = Annotated[
    str,
    _check(_RESOURCE.fullmatch, "write the plural in lower case and its group, such as ippools.example.org"),
    _check(lambda text: text != "pods", "people write Pods, and an outage would let all of them pass"),
]
_SERVICE_URL, _ADDRESS = r"^(https://[^?#@]+)?$", r"^(https?://\S{1,500})?$"
ServiceUrl = Annotated[
    str,
    _check(re.compile(_SERVICE_URL).fullmatch, "write https://HOST[:PORT][/PATH]"),
    Field(json_schema_extra={"pattern": _SERVICE_URL}),
]
Address = Annotated[
    str,
    _check(
        re.compile(_ADDRESS).fullmatch, "write http://ADDRESS or https://ADDRESS, of at most 500 letters and no blanks"
    ),
    Field(json_schema_extra={"pattern": _ADDRESS}),
]
ReleaseName = Annotated[str, BeforeValidator(_quoted), AfterValidator(lambda text: text and named(text).name)]
RuleAction = Annotated[Action, BeforeValidator(_on_or_off)]
PackMode = Annotated[Literal["enforce", "warn", "audit", "off"], BeforeValidator(_on_or_off)]
DenyOrWarn = Literal["deny", "warn"]
DenyWarnOff = Annotated[Literal["deny", "warn", "off"], BeforeValidator(_on_or_off)]
WarnAuditOff = Annotated[Literal["warn", "audit", "off"], BeforeValidator(_on_or_off)]
DaemonSets = Annotated[Literal["inject", "warn", "off"], BeforeValidator(_on_or_off)]
OnOff = Annotated[Literal["on", "off"], BeforeValidator(_on_or_off)]
LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["auto", "json", "text"]
Port = Annotated[int, Field(ge=0, le=65535)]
Many = Annotated[tuple[T, ...], Field(strict=False)]
Strings = Many[str]
Globs = Many[Glob]
FieldPaths = Many[FieldPath]
InnerPaths = Many[InnerPath]
KindsAndNames = Many[KindAndName]
Resources = Many[Resource]


class Requirement(Model):
    """One requirement of a label selector."""

    key: str = Field(min_length=1, description="Label key.")
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"] = Field(description="In, NotIn, Exists or DoesNotExist.")
    values: Strings = field((), "Values for In and NotIn.")

    @model_validator(mode="after")
    def _values_fit_the_operator(self) -> Self:
        if bool(self.values) != (self.operator in ("In", "NotIn")):
            raise ValueError(f"{self.operator} {'takes no' if self.values else 'needs'} values")
        return self


class Selector(Model):
    """A label selector; an empty one selects everything."""

    match_labels: dict[str, str] = field({}, "Labels that must have these values.")
    match_expressions: Many[Requirement] = field((), "Requirements.")

    @property
    def label_selector(self) -> LabelSelector:
        """The same selector, as rules use it."""
        equal = (SelectorRequirement(key, "In", (value,)) for key, value in self.match_labels.items())
        others = (SelectorRequirement(r.key, r.operator, r.values) for r in self.match_expressions)
        return LabelSelector((*equal, *others))


class LabelExceptionSettings(Model):
    """A reserved label that people may set."""

    key: str = Field(min_length=1, description="Label key.")
    kinds: Annotated[Strings, Field(min_length=1)] = Field(
        description="Kinds, as Pod or NodePool.compute.coreweave.com; Pod includes pod templates."
    )
    values: Strings = field((), "Values allowed; empty allows any.")


class Requesters(Model):
    """Exempt requesters, beside those of labels.exempt. Exact names, or globs with * and ?."""

    users: Globs = field((), "User names.")
    groups: Globs = field((), "Groups.")
    service_accounts: Globs = field((), "Service accounts, as namespace/name.")


class Exempt(Requesters):
    """Exempt requesters, beside the cluster's own components. Exact names, or globs with * and ?."""

    control_plane_namespaces: Strings = field(
        (), "Namespaces of the control plane: their accounts pass also while the service is down."
    )


class LabelsSettings(Model):
    """The guard of reserved labels."""

    action: RuleAction = field("deny", "What happens on a violation: deny, warn, audit or off.")
    enforced_by: Literal["auto", "policy", "static", "webhook"] = field(
        "auto",
        "Who refuses. policy: the API server itself, also while the service is down; static: the same, by a file of "
        "export static; webhook: an entry that fails closed; auto: policy from Kubernetes 1.37 on. Without "
        "registration.apply it is static or webhook.",
    )
    namespace_selector: Selector = field(Selector(), "Namespaces whose objects are checked.")
    exceptions: Many[LabelExceptionSettings] = field(
        tuple(LabelExceptionSettings(key=exception.key, kinds=("Pod",)) for exception in EXCEPTIONS),
        "Reserved labels that people may set. A list given here replaces this one.",
    )
    exempt: Exempt = field(Exempt(), "More exempt requesters.")
    trusted: KindsAndNames = field(
        (),
        "Policies and definitions that may write reserved labels, as kind/name, with * and ?: "
        "MutatingAdmissionPolicy/cks-*, CustomResourceDefinition/*.example.org.",
    )


class GuardSettings(Model):
    """Namespaces and taints that only the cloud may change. It fails open."""

    namespaces: DenyWarnOff = field(
        "warn", "Edits and deletions of Namespaces of the control plane: deny, warn or off."
    )
    taints: DenyWarnOff = field(
        "warn",
        "Removals of Nodes' taints node.coreweave.cloud/reserved, is_gpu, is_cpu_compute and sunk.coreweave.com/lock: "
        "deny, warn or off.",
    )
    admission: DenyWarnOff = field(
        "warn",
        "What may write labels unseen, in files of export static: deny refuses others' mutating policies, mutating "
        "webhooks and conversions; warn names policies that name reserved labels; or off.",
    )
    exempt: Requesters = field(Requesters(), "More exempt requesters, such as SUNK's accounts.")


class AcceleratorSettings(Model):
    """What counts as an accelerator."""

    resources: Globs = field(Accelerators().resources, "Extended resources, as globs.")
    device_classes: Strings = field(Accelerators().device_classes, "Device classes of dynamic resource claims.")


class TolerationsSettings(Model):
    """The CPU toleration."""

    action: RuleAction = field(
        "warn", "What happens when /validate finds the toleration missing; off disables the rule."
    )
    namespace_selector: Selector = field(Selector(), "Namespaces whose Pods and DaemonSets are changed.")
    daemon_sets: DaemonSets = field("inject", "DaemonSet templates: inject, warn or off.")
    accelerators: AcceleratorSettings = field(AcceleratorSettings(), "What makes a Pod a GPU Pod.")


class SunkSettings(Model):
    """DaemonSets on SUNK Nodes."""

    action: RuleAction = field(
        "warn", "What happens when the toleration is missing and not injected; off disables the rule."
    )
    namespace_selector: Selector = field(Selector(), "Namespaces whose DaemonSets are checked.")
    daemon_sets: DaemonSets = field("warn", "inject, warn or off.")
    node_selector: dict[str, str] = field(
        {}, "Labels of SUNK Nodes; empty: those with a sunk.coreweave.com/ taint or label."
    )


class SelectorsSettings(Model):
    """Node selectors, node affinity and topology keys."""

    action: WarnAuditOff = field("warn", "What happens on a mistake: warn, audit or off.")
    namespace_selector: Selector = field(Selector(), "Namespaces whose objects are checked.")


class Organization(Model):
    """The organization whose cluster this is."""

    id: str = field("", "Value that users may give the label ns.coreweave.cloud/org on their Namespaces.")
    reserved_hash: str = field("", "Value of the Nodes' taint node.coreweave.cloud/reserved; empty: that of the Nodes.")


class Policies(Model):
    """Admission policies in Kubernetes' own form, which apply besides the built-in rules."""

    directories: Strings = field(
        (), "Files and directories with policies, bindings and parameters; watched for changes."
    )
    config_maps: bool = field(
        True, "In a cluster, also ConfigMaps labelled cks-admission.dev/policies=true in cluster.namespace."
    )
    native: bool = field(
        True, "In a cluster, check pod templates by its own policies with cks-admission.dev/derive: true."
    )
    kubernetes: ReleaseName = field(
        "",
        "Release of Kubernetes that judges policies, such as 1.36; empty: that of the API server, without a cluster "
        "the newest.",
    )
    slow: Literal["keep", "skip"] = field(
        "keep",
        "A policy that is over its time 3 times in a minute: keep it, or skip it as failed for 5 minutes or until "
        "policies change.",
    )
    shadow: Strings = field(
        (),
        "Files and directories with shadow policies, which decide nothing: what they would change is counted and "
        "recorded; watched for changes.",
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
    templates: FieldPaths = field((), "Paths of pod templates.")
    jobs: InnerPaths = field((), "Paths of templates of objects between it and its Pods.")
    claims: InnerPaths = field((), "Paths of claim templates.")
    node_labels: InnerPaths = field((), "Paths of maps of labels that are set on Nodes.")
    pod_labels: InnerPaths = field((), "Paths of maps of labels that are set on Pods.")
    changes: TemplateChange = field(
        "create", "When annotations of templates may be written: always, suspended, create or never."
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
            OWN_MESSAGE, f"{quote(value)} is no kind that is shipped: {names} are; write others as a map"
        )


class ExceptionSettings(Model):
    """Lets requests pass rules until a date. Every list but rules matches everything when empty; globs are allowed."""

    rules: Annotated[Strings, Field(min_length=1)] = Field(
        description="Names of rules: labels, guard, tolerations, sunk, topology, topology-objects, selectors, or of "
        "policies."
    )
    reason: str = Field(min_length=1, description="Why; shown in the audit log.")
    until: Annotated[date, Field(strict=False)] = Field(description="Last day (UTC) on which it holds.")
    namespaces: Globs = field((), "Namespaces.")
    kinds: Globs = field((), "Kinds, as Pod or Deployment.apps.")
    names: Globs = field((), "Names.")
    users: Globs = field((), "User names.")
    groups: Globs = field((), "Groups; the user is in at least one.")
    object_selector: Selector = field(
        Selector(), "Labels of the object or the old object: matchLabels and matchExpressions."
    )


class SafetySettings(Model):
    """More essential writes, which no outage may stop. Policies judge them all the same."""

    namespaces: Strings = field(
        (), "Namespaces of components, such as calico-system; not kube-system, which always counts."
    )
    resources: Resources = field(
        (),
        "Resources that only components may write, such as ippools.whereabouts.cni.cncf.io; without a group it means "
        "the core group; never pods.",
    )
    users: Globs = field((), "Users who count as the control plane, as globs.")


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

    mode: PackMode = field("warn", "enforce, warn, audit or off.")
    policies: dict[str, PackMode] = field({}, "Modes of single policies, by name.")
    parameters: dict[str, Parameter] = field(
        {}, "Values that replace those in the ConfigMaps of the pack: texts, numbers, or lists of texts."
    )

    @model_validator(mode="before")
    @classmethod
    def _mode_alone(cls, value: Any) -> Any:
        return value if isinstance(value, dict | PackSettings) else {"mode": value}


class PacksSettings(Model):
    """Shipped policies: enforce, warn, audit or off. A policy of your own with the same name takes the place of one."""

    interruptable_qos: PackSettings = field(
        PackSettings(), "Interruptable workloads can be interrupted.", alias="interruptable-qos"
    )
    scheduling_safety: PackSettings = field(
        PackSettings(), "Tolerations and node selectors do no harm.", alias="scheduling-safety"
    )
    sunk: PackSettings = field(PackSettings(), "Pods stay off Nodes that Slurm has locked.")

    @field_validator("*", mode="after")
    @classmethod
    def _is_shipped(cls, value: PackSettings, info: ValidationInfo) -> PackSettings:
        pack = str(cls.model_fields[str(info.field_name)].alias)
        if not (value.policies or value.parameters):
            return value
        known, problems = packfiles.names(pack), []
        for what, given, names in (
            ("policy", value.policies, known.switches),
            ("parameter", value.parameters, known.parameters),
        ):
            for name in given:
                if name not in names:
                    otherwise = f"it has {', '.join(names) or 'none'}"
                    problems.append(f"the pack has no {what} {name!r}; {did_you_mean(name, names, otherwise)}")
        if problems:
            raise PydanticCustomError(OWN_MESSAGE, "{problems}", {"problems": "; ".join(problems)})
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


class LevelSettings(Model):
    """A level: a node label key, or a map with an alias."""

    node_label: str = Field(description="Key of the label that Nodes of one domain share.")
    alias: str = field("", "Further name of the level.")

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
    node_requirement: Selector = field(Selector(), "Label selector of Nodes that Pods may be placed on.")
    pool: Selector = field(Selector(), "Label selector of its Nodes; empty: unspecified.")

    @model_validator(mode="after")
    def _is_a_topology(self) -> Self:
        try:
            make(self.name, [level.written for level in self.levels], "")
        except TopologyError as error:
            details = [
                InitErrorDetails(
                    type=PydanticCustomError(OWN_MESSAGE, "{problem}", {"problem": problem}), loc=at, input=None
                )
                for at, problem in error.problems
            ]
            raise ValidationError.from_exception_data(self.name, details) from None
        return self


class DefaultPlacement(Model):
    """Defaults for workloads without annotations."""

    topology: str = field("", "Topology of placements that name none.")
    preferred: str = field(
        "lowest", "Level that distributed workloads without annotations prefer; lowest: the last above a Node."
    )
    namespace_selector: Selector = field(Selector(), "Namespaces in which these defaults apply.")


class WaySettings(Model):
    """Who may keep the Pods of a gang together; the first entry that matches counts, else all."""

    topologies: Globs = field(("*",), "Names of topologies, as globs.")
    namespace_selector: Selector = field(Selector(), "Namespaces.")
    ways: Many[Way] = field(
        USUAL,
        "kueue; workload: Kubernetes' own workload scheduling; gate: Pods wait behind a gate until all of them fit "
        "into one domain; affinity: Pod affinity, by which Pods are placed one by one.",
    )


class SchedulerSettings(Model):
    """Schedulers that are not Kubernetes' own, by name (globs) or by a label of the workload or Pod."""

    reading: Globs = field(Schedulers().reading, "Schedulers that read the annotations themselves.")
    labels: Strings = field(Schedulers().labels, "Labels that assign a Pod to such a scheduler.")
    ignoring: Globs = field(Schedulers().ignoring, "Schedulers that ignore node affinity.")


class TopologySettings(Model):
    """Placement of gangs by topology annotations."""

    action: RuleAction = field("deny", "What happens on a wrong annotation; off disables the rule.")
    namespace_selector: Selector = field(Selector(), "Namespaces whose workloads are checked and changed.")
    preferred_not_more_specific: DenyOrWarn = field(
        "deny", "A preferred placement that is not more specific than the required one: deny or warn."
    )
    unapplied: DenyOrWarn = field(
        "warn", "A Pod or template that lacks its gate or annotations after mutation: deny or warn."
    )
    workload_scheduling: OnOff = field(
        "off", "Whether Kubernetes itself places Jobs with a required level, where its feature gates are on."
    )
    placement: Many[WaySettings] = field((), WaySettings.__doc__)
    autoscaling: OnOff = field(
        "on", "A gang that no domain can hold. on: it gets Pod affinity, which an autoscaler sees; off: it is refused."
    )
    settle_seconds: float = field(
        2.0, "How long a gang of unknown size, or one that only prefers a level, waits after its first Pod.", gt=0
    )
    patience_seconds: float = field(900.0, "How long a gang lets others pass; then a domain is kept free for it.", gt=0)
    deletion: RuleAction = field(
        "warn", "What happens when a Topology object that workloads name goes or changes; off if action is off."
    )
    facts: str = field(
        "",
        "ConfigMap in cluster.namespace with the domains, Nodes and GPUs of each topology, for policies to read as "
        "params; empty: none.",
    )
    default: DefaultPlacement = field(DefaultPlacement(), DefaultPlacement.__doc__)
    topologies: Many[OwnTopology] = field((), OwnTopology.__doc__)
    files: Strings = field((), "Files and directories with topologies in the form of KAI, of Kueue or of Run:ai's API.")
    topograph_prefixes: Strings = field(
        (), "Prefixes of keys that Topograph writes; it shortens values over 63 characters."
    )
    pool_keys: Strings = field(Options({}).pool_keys, "Node labels by which workloads name a node pool.")
    schedulers: SchedulerSettings = field(SchedulerSettings(), SchedulerSettings.__doc__)
