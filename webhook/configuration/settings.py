"""The configuration: one YAML file, every key documented and defaulted.

`cks-admission export configuration` prints all of it with its defaults; `docs/reference/configuration.md` is that text.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from webhook.configuration.fields import (
    Address,
    Globs,
    LogFormat,
    LogLevel,
    Many,
    Model,
    Port,
    ServiceUrl,
    SettingsError,
    Strings,
)
from webhook.configuration.rulesettings import (
    ExceptionSettings,
    GuardSettings,
    LabelsSettings,
    Organization,
    PacksSettings,
    Policies,
    SafetySettings,
    SelectorsSettings,
    SunkSettings,
    TolerationsSettings,
    TopologySettings,
    WorkloadSettings,
)

__all__ = ["Settings", "SettingsError"]

Content = Literal["none", "messages", "objects"]


class Listen(Model):
    """Where the API server reaches the service."""

    host: str = Field("0.0.0.0", description="Address to listen on.")  # noqa: S104 - a Pod is reached from other hosts
    port: Port = Field(9443, description="TLS port; 0 takes a free one.")
    max_in_flight: int = Field(512, ge=1, description="Reviews answered at once; more get 503 with Retry-After.")
    max_bytes_in_flight: int = Field(
        64 * 1024 * 1024, ge=16 * 1024 * 1024, description="Bytes of bodies held at once; more get 503."
    )
    body_seconds: float = Field(
        3.0, gt=0, le=30, description="How long a body may take to arrive, within the time-out of its caller."
    )
    max_connections: int = Field(
        1024, ge=1, description="Connections at once; beyond, an idle one is closed for a new one."
    )
    max_connections_per_address: int = Field(
        768, ge=1, description="The same for one address; all API servers may call from one."
    )
    connection_seconds: float = Field(
        60.0, ge=0, description="How long a connection stays open, give or take a quarter; 0: as long as it is used."
    )
    drain_seconds: float = Field(
        5.0, ge=0, le=600, description="How long the port stays open after SIGTERM, while the service is not ready."
    )
    grace_seconds: float = Field(20.0, ge=0, le=600, description="How long requests in flight may take after that.")


class Health(Model):
    """Where probes and Prometheus reach the service, over plain HTTP."""

    host: str = Field("0.0.0.0", description="Address to listen on.")  # noqa: S104 - kubelets and Prometheus come from outside
    port: Port = Field(8081, description="Port of /livez, /readyz and /metrics; 0 takes a free one.")


class Tls(Model):
    """The served certificate: a pair of files, or one that the service makes."""

    cert_file: str = Field("", description="Certificate chain, PEM; watched. Empty: the service makes its own.")
    key_file: str = Field("", description="Private key of certFile, PEM.")
    secret: str = Field(
        "", description="Secret in cluster.namespace in which manage keeps the CA that all replicas share."
    )
    directory: str = Field(".cks-admission/certs", description="Where the service keeps the CA and pair that it makes.")
    client_ca_file: str = Field(
        "", description="CA bundle, PEM, watched: only callers with a certificate of these CAs get an answer."
    )
    names: Strings = Field(
        ("localhost", "127.0.0.1"), description="DNS names and IP addresses in the certificate that the service makes."
    )
    check_seconds: float = Field(10.0, gt=0, description="How often the service checks the pair for changes and age.")


class ClusterSettings(Model):
    """The cluster whose Namespaces, Nodes and claims rules read. Without one, they know only the request."""

    kubeconfig: str = Field("", description="Path of a kubeconfig.")
    in_cluster: bool = Field(False, description="Use the Pod's service account.")
    service_account: str = Field(
        "", description="Directory with token and ca.crt of the service account; empty: the usual one."
    )
    namespace: str = Field("cks-admission", min_length=1, description="The Namespace in which the service runs.")
    lease: str = Field(
        "cks-admission", min_length=1, description="Lease in that Namespace; its holder writes to the cluster."
    )
    cut_off_seconds: float = Field(
        1800.0, ge=300, description="How long the API server may be silent before a replica is not ready."
    )

    @property
    def is_given(self) -> bool:
        """Whether there is a cluster, and so a placer that opens the gates of Pods."""
        return bool(self.kubeconfig or self.in_cluster)


class Manage(Model):
    """The process `cks-admission manage`, which writes to the cluster what all replicas share."""

    apart: bool = Field(False, description="Whether it runs; then serve writes nothing that replicas share.")
    secret: str = Field("", description="Secret in cluster.namespace in which it keeps the replicas' certificate.")
    pods: str = Field(
        "app.kubernetes.io/name=cks-admission,app.kubernetes.io/component=webhook",
        description="Label selector of the replicas' Pods there.",
    )


class Place(Model):
    """The process `cks-admission place`, which chooses domains for gangs and opens the gates of their Pods."""

    apart: bool = Field(False, description="Whether it runs; then serve places nothing.")
    lease: str = Field(
        "cks-admission-placer", min_length=1, description="Lease in cluster.namespace; its holder opens gates."
    )


class KeptRequirement(Model):
    """A requirement that a cloud adds to the namespaceSelector of every webhook, with NotIn or DoesNotExist."""

    key: str = Field(min_length=1, description="Label key.")
    values: Globs = Field((), description="Values allowed with NotIn, as globs.")


class Registration(Model):
    """The webhook configurations, by which the API server calls the service."""

    apply: bool = Field(False, description="Write them to the cluster, and repair them.")
    ca_only: bool = Field(False, description="Write only the caBundle, into configurations that somebody else applies.")
    name: str = Field("cks-admission", min_length=1, description="Name of both webhook configurations.")
    url: ServiceUrl = Field("", description="Base URL of the service, for one outside the cluster.")
    service: str = Field("cks-admission", description="Name of the Service, if url is empty.")
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
        5, ge=1, le=30, description="How long the API server waits for entries that fail closed."
    )
    open_timeout_seconds: int = Field(3, ge=1, le=30, description="The same for entries that fail open.")
    essential_timeout_seconds: int = Field(1, ge=1, le=30, description="The same for essential writes.")

    @property
    def writes(self) -> bool:
        """Whether webhook configurations, or their caBundle, are written."""
        return self.apply or self.ca_only


class SampleSettings(Model):
    """Which answers are recorded."""

    verdicts: Annotated[
        Many[Literal["admit", "patch", "deny", "warn", "audit", "excepted", "error"]], Field(min_length=1)
    ] = Field(description="Verdicts: admit, patch, deny, warn, audit, excepted or error.")
    rules: Globs = Field(("*",), description="Names of rules and policies, as globs.")
    share: float = Field(1.0, ge=0, le=1, description="Share of these answers to record, from 0 to 1.")


class DecisionsSettings(Model):
    """The decision log: a JSON line for each sampled answer, apart from the logs on stderr."""

    log: str = Field("", description="File, or - for stdout. Empty: no log.")
    content: Content = Field(
        "none",
        description="none: identities, verdicts and field paths; messages: also messages and warnings; objects: all "
        "that replay needs. Secrets and values of environment variables are always masked.",
    )
    samples: Many[SampleSettings] = Field(
        (SampleSettings(verdicts=("deny", "error")),),
        description="The first entry with the rule and the verdict counts; without one, nothing is recorded. A list "
        "given here replaces this one.",
    )
    max_record_bytes: int = Field(
        128 * 1024,
        ge=4096,
        le=1024 * 1024,
        description="Size of a review or record beyond which messages and objects are left out.",
    )
    max_file_bytes: int = Field(64 * 1024 * 1024, ge=1024 * 1024, description="Size at which the file is rotated.")
    max_files: int = Field(5, ge=1, le=100, description="How many rotated files are kept.")


class TracingSettings(Model):
    """Traces of reviews, sent by OpenTelemetry's protocol. They hold identities and verdicts, no content of objects."""

    endpoint: Address = Field(
        "",
        description="Receiver that speaks OTLP over HTTP, such as http://collector.monitoring:4318; empty: no traces.",
    )
    share: float = Field(
        0.01,
        ge=0,
        le=1,
        description="Share of reviews that are traced, from 0 to 1; an API server that traces decides instead.",
    )
    rule_seconds: float = Field(0.001, ge=0, description="Rules that take longer have spans of their own; 0: all.")


class EventsSettings(Model):
    """Events on people's workloads."""

    refusals: bool = Field(
        True,
        description="Write an Event on a Deployment, JobSet or the like when its controllers are refused; once an hour "
        "for each rule.",
    )
    findings: bool = Field(
        True,
        description="Write an Event on a workload when an audit with reports finds that it, or what it owns, would be "
        "refused; again when its report changes.",
    )


class AuditSettings(Model):
    """The record of audits with reports."""

    record: str = Field(
        "",
        max_length=253,
        description="An existing ConfigMap in cluster.namespace. An audit of all Namespaces records there what it did, "
        "and manage makes metrics of it. Empty: neither happens.",
    )


class HelpSettings(Model):
    """Where people who are refused or warned can read on."""

    url: Address = Field(
        "",
        description="Address at the end of each refusal and of the last warning. {page} and {code} stand for a page of "
        "docs/refused and a heading on it: https://docs.example.org/refused/{page}/#{code}. Empty: none.",
    )


class Log(Model):
    """Logs, on stderr."""

    level: LogLevel = Field("info", description="debug, info, warning or error; admitted requests are logged at debug.")
    format: LogFormat = Field("auto", description="json, text, or auto: text on a terminal.")


class Settings(Model):
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
