"""The configuration: one YAML file, every key documented and defaulted.

`cks-admission export configuration` prints all of it with its defaults; `docs/reference/configuration.md` is that text.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from policies.engine.request import JsonObject
from policies.engine.violation import quote
from policies.kubernetes.release import Release, named
from policies.objects.fieldpath import render
from policies.objects.workload import SHIPPED, TemplateChange, Workload, workload
from policies.podspec import Accelerators
from webhook.configuration.decisions import DecisionsSettings
from webhook.configuration.fields import (
    TOLD,
    DaemonSets,
    DenyWarnOff,
    FieldPaths,
    Globs,
    InnerPaths,
    KindsAndNames,
    LogFormat,
    LogLevel,
    Many,
    Port,
    ReleaseName,
    Resources,
    RuleAction,
    SettingsError,
    Strings,
)
from webhook.configuration.fields import Model as _Model
from webhook.configuration.listen import Listen
from webhook.configuration.packs import PacksSettings
from webhook.configuration.placement import TopologySettings
from webhook.configuration.selector import Selector
from webhook.configuration.telemetry import AuditSettings, EventsSettings, TracingSettings

__all__ = ["TOLD", "Settings", "SettingsError"]


class Health(_Model):
    """Where probes and Prometheus reach the service, over plain HTTP."""

    host: str = Field("0.0.0.0", description="Address to listen on.")  # noqa: S104 - kubelets and Prometheus come from outside
    port: Port = Field(8081, description="Port of /livez, /readyz and /metrics; 0 takes a free one.")


class Tls(_Model):
    """The certificate to serve: a pair of files that somebody else renews, or one of the service's own."""

    cert_file: str = Field("", description="Certificate chain, PEM; watched. Empty: the service makes its own.")
    key_file: str = Field("", description="Private key of certFile, PEM.")
    secret: str = Field(
        "", description="Secret in cluster.namespace with the CA that all replicas share. Empty: directory is used."
    )
    directory: str = Field(".cks-admission/certs", description="Where the service keeps the CA and pair that it makes.")
    client_ca_file: str = Field(
        "", description="CA bundle, PEM, watched: only callers with a certificate of these CAs are answered."
    )
    names: Strings = Field(
        ("localhost", "127.0.0.1"), description="DNS names and IP addresses in the certificate that the service makes."
    )
    check_seconds: float = Field(10.0, gt=0, description="How often the pair is checked for changes and for its age.")


class ClusterSettings(_Model):
    """The cluster to read Namespaces, Nodes and claims from; without one, rules know only what the request says."""

    kubeconfig: str = Field("", description="Path of a kubeconfig.")
    in_cluster: bool = Field(False, description="Use the Pod's service account.")
    service_account: str = Field(
        "", description="Directory with token and ca.crt of the service account; empty for where Pods usually have it."
    )
    namespace: str = Field("cks-admission", min_length=1, description="The Namespace in which the service runs.")
    lease: str = Field(
        "cks-admission", min_length=1, description="Lease there by which replicas agree who writes to the cluster."
    )
    cut_off_seconds: float = Field(
        1800.0, ge=300, description="After so long without a word from the API server a replica is not ready."
    )

    @property
    def is_given(self) -> bool:
        """Whether there is a cluster, and so a placer that opens the gates of Pods."""
        return bool(self.kubeconfig or self.in_cluster)


class Manage(_Model):
    """The process `cks-admission manage`, which writes to the cluster what all replicas share."""

    apart: bool = Field(False, description="It runs, so that serve itself writes nothing that replicas share.")
    secret: str = Field("", description="Secret in cluster.namespace in which it keeps the replicas' certificate.")
    pods: str = Field(
        "app.kubernetes.io/name=cks-admission,app.kubernetes.io/component=webhook",
        description="Label selector of the replicas' Pods there.",
    )


class Place(_Model):
    """The process `cks-admission place`, which chooses domains for gangs and opens the gates of their Pods."""

    apart: bool = Field(False, description="It runs, so that serve itself places nothing.")
    lease: str = Field(
        "cks-admission-placer",
        min_length=1,
        description="Lease in cluster.namespace by which placers agree who opens gates.",
    )


class KeptRequirement(_Model):
    """A requirement that a cloud adds to the namespaceSelector of every webhook, with NotIn or DoesNotExist."""

    key: str = Field(min_length=1, description="Label key.")
    values: Globs = Field((), description="Values allowed with NotIn, as globs.")


class Registration(_Model):
    """The webhook configurations by which the API server knows the service."""

    apply: bool = Field(
        False, description="Write them to the cluster, and again whenever somebody changes or deletes them."
    )
    ca_only: bool = Field(
        False, description="Write nothing but the caBundle, into configurations that somebody else applies."
    )
    name: str = Field("cks-admission", min_length=1, description="Name of both webhook configurations.")
    url: str = Field(
        "", pattern=r"^(https://.*)?$", description="Base URL of the service, for one outside the cluster."
    )
    service: str = Field("cks-admission", description="Name of the Service; used where no url is given.")
    service_port: Port = Field(443, description="Port of the Service.")
    ca_file: str = Field("", description="CA bundle for tls.certFile, PEM; not needed for the service's own CA.")
    inject_ca_from: str = Field(
        "", description="Certificate of cert-manager, as namespace/name, whose CA cert-manager writes into caBundle."
    )
    owner: str = Field(
        "", description="ClusterRole that owns the configurations: Kubernetes deletes them when it is deleted."
    )
    kept: Many[KeptRequirement] = Field(
        (),
        description="Requirements that a cloud may add to namespaceSelectors. Namespaces with such labels escape all "
        "rules, the guard's too.",
    )
    timeout_seconds: int = Field(
        5, ge=1, le=30, description="How long the API server waits for an answer of what fails closed."
    )
    open_timeout_seconds: int = Field(3, ge=1, le=30, description="The same for what fails open.")
    essential_timeout_seconds: int = Field(
        1, ge=1, le=30, description="The same for writes that a cluster needs to come up."
    )


class LabelExceptionSettings(_Model):
    """A reserved label that people may set."""

    key: str = Field(min_length=1, description="Label key.")
    kinds: Annotated[Strings, Field(min_length=1)] = Field(
        description="Kinds, as Pod or NodePool.compute.coreweave.com; Pod includes pod templates."
    )
    values: Strings = Field((), description="Values allowed; empty allows any.")


class Requesters(_Model):
    """Requesters to leave alone, beside those of labels.exempt. Exact names, or globs with * and ?."""

    users: Globs = Field((), description="User names.")
    groups: Globs = Field((), description="Groups.")
    service_accounts: Globs = Field((), description="Service accounts, as namespace/name.")


class Exempt(Requesters):
    """Requesters to leave alone, beside the cluster's own components. Exact names, or globs with * and ?."""

    control_plane_namespaces: Strings = Field(
        (),
        description="Namespaces known to be the control plane's: their accounts pass even while the service is down.",
    )


class LabelsSettings(_Model):
    """The guard of the reserved label namespaces."""

    action: RuleAction = Field("deny", description="What happens on a violation: deny, warn, audit or off.")
    namespace_selector: Selector = Field(Selector(), description="Namespaces whose objects are checked.")
    exceptions: Many[LabelExceptionSettings] = Field(
        (
            LabelExceptionSettings(key="qos.coreweave.cloud/interruptable", kinds=("Pod",)),
            LabelExceptionSettings(key="qos.coreweave.com/graceful-interruptible", kinds=("Pod",)),
        ),
        description="Reserved labels that people may set. A list given here replaces this one.",
    )
    exempt: Exempt = Field(Exempt(), description="More requesters to leave alone.")
    trusted: KindsAndNames = Field(
        (),
        description="Policies and definitions that may write reserved labels, as kind/name, with * and ?: "
        "MutatingAdmissionPolicy/cks-*, CustomResourceDefinition/*.example.org.",
    )


class GuardSettings(_Model):
    """What only the cloud may take away. It fails open, whatever happens on a violation."""

    namespaces: DenyWarnOff = Field(
        "warn", description="Edits and deletions of Namespaces of the control plane: deny, warn or off."
    )
    taints: DenyWarnOff = Field(
        "warn",
        description="Removals of Nodes' taints node.coreweave.cloud/reserved, is_gpu, is_cpu_compute and "
        "sunk.coreweave.com/lock: deny, warn or off.",
    )
    exempt: Requesters = Field(Requesters(), description="More requesters to leave alone, such as SUNK's accounts.")


class AcceleratorSettings(_Model):
    """What counts as an accelerator."""

    resources: Globs = Field(Accelerators().resources, description="Extended resources, as globs.")
    device_classes: Strings = Field(
        Accelerators().device_classes, description="Device classes of dynamic resource claims."
    )


class TolerationsSettings(_Model):
    """The CPU toleration."""

    action: RuleAction = Field(
        "warn", description="What happens when /validate finds the toleration missing; off disables the rule."
    )
    namespace_selector: Selector = Field(Selector(), description="Namespaces whose Pods and DaemonSets are changed.")
    daemon_sets: DaemonSets = Field("inject", description="DaemonSet templates: inject, warn or off.")
    accelerators: AcceleratorSettings = Field(AcceleratorSettings(), description="What makes a Pod a GPU Pod.")


class SunkSettings(_Model):
    """DaemonSets on SUNK Nodes."""

    action: RuleAction = Field(
        "warn", description="What happens when the toleration is missing and not injected; off disables the rule."
    )
    namespace_selector: Selector = Field(Selector(), description="Namespaces whose DaemonSets are checked.")
    daemon_sets: DaemonSets = Field("warn", description="inject, warn or off.")
    node_selector: dict[str, str] = Field(
        {}, description="Labels of SUNK Nodes; empty: those with a sunk.coreweave.com/ taint or label."
    )


class SelectorsSettings(_Model):
    """Node selectors, node affinity and topology keys that people write by hand."""

    action: Literal["warn", "audit", "off"] = Field(
        "warn", description="What happens on one that selects nothing, or not what it says: warn, audit or off."
    )
    namespace_selector: Selector = Field(Selector(), description="Namespaces whose objects are looked at.")


class Organization(_Model):
    """The organization whose cluster this is."""

    id: str = Field("", description="Value that users may give the label ns.coreweave.cloud/org on their Namespaces.")
    reserved_hash: str = Field(
        "", description="Value of the Nodes' taint node.coreweave.cloud/reserved; empty: read off Nodes."
    )


class Policies(_Model):
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
        description="Release of Kubernetes by whose rules policies are judged, such as 1.36; empty: that of the "
        "cluster's API server, without a cluster the newest one known.",
    )
    slow: Literal["keep", "skip"] = Field(
        "keep",
        description="A policy that was over its time 3 times in a minute: keep, or skip it as failed for 5 minutes or "
        "until policies change (not just the objects that paramRefs name).",
    )
    shadow: Strings = Field(
        (),
        description="Files and directories with validating policies that decide nothing: what they would change is "
        "counted, and recorded in the log of decisions; watched for changes.",
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


class WorkloadSettings(_Model):
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


class ExceptionSettings(_Model):
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


class SafetySettings(_Model):
    """Writes that no outage may stop, beside those that every cluster needs. Policies judge them all the same."""

    namespaces: Strings = Field(
        (),
        description="Namespaces of components, such as calico-system; not kube-system, which always counts.",
    )
    resources: Resources = Field(
        (),
        description="Resources that only components may write, such as ippools.whereabouts.cni.cncf.io; without a "
        "group it means the core group; never pods.",
    )
    users: Globs = Field((), description="Users who write what controllers write, as globs.")


class HelpSettings(_Model):
    """Where people whom a rule refuses or warns can read on."""

    url: str = Field(
        "",
        pattern=r"^(https?://\S{1,500})?$",
        description="Address that ends each refusal, and stands in the last warning. {page} and {code} stand for a "
        "page of docs/refused and a heading on it: https://docs.example.org/refused/{page}/#{code}. Empty: neither has "
        "one.",
    )


class Log(_Model):
    """Logs, on stderr."""

    level: LogLevel = Field("info", description="debug, info, warning or error; admitted requests are logged at debug.")
    format: LogFormat = Field("auto", description="json, text, or auto: text on a terminal.")


class Settings(_Model):
    """The whole configuration."""

    listen: Listen = Field(Listen(), description=Listen.__doc__)
    health: Health = Field(Health(), description=Health.__doc__)
    tls: Tls = Field(Tls(), description=Tls.__doc__)
    cluster: ClusterSettings = Field(ClusterSettings(), description=ClusterSettings.__doc__)
    manage: Manage = Field(Manage(), description=Manage.__doc__)
    place: Place = Field(Place(), description=Place.__doc__)
    registration: Registration = Field(Registration(), description=Registration.__doc__)
    organization: Organization = Field(Organization(), description=Organization.__doc__)
    labels: LabelsSettings = Field(LabelsSettings(), description=LabelsSettings.__doc__)
    guard: GuardSettings = Field(GuardSettings(), description=GuardSettings.__doc__)
    tolerations: TolerationsSettings = Field(TolerationsSettings(), description=TolerationsSettings.__doc__)
    sunk: SunkSettings = Field(SunkSettings(), description=SunkSettings.__doc__)
    topology: TopologySettings = Field(TopologySettings(), description=TopologySettings.__doc__)
    selectors: SelectorsSettings = Field(SelectorsSettings(), description=SelectorsSettings.__doc__)
    packs: PacksSettings = Field(PacksSettings(), description=PacksSettings.__doc__)
    policies: Policies = Field(Policies(), description=Policies.__doc__)
    safety: SafetySettings = Field(SafetySettings(), description=SafetySettings.__doc__)
    workloads: Many[WorkloadSettings] = Field((), description=WorkloadSettings.__doc__)
    exceptions: Many[ExceptionSettings] = Field((), description=ExceptionSettings.__doc__)
    decisions: DecisionsSettings = Field(DecisionsSettings(), description=DecisionsSettings.__doc__)
    tracing: TracingSettings = Field(TracingSettings(), description=TracingSettings.__doc__)
    events: EventsSettings = Field(EventsSettings(), description=EventsSettings.__doc__)
    audit: AuditSettings = Field(AuditSettings(), description=AuditSettings.__doc__)
    help: HelpSettings = Field(HelpSettings(), description=HelpSettings.__doc__)
    log: Log = Field(Log(), description=Log.__doc__)
