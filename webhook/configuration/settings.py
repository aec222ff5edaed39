"""The configuration: one YAML file, every key documented and defaulted.

`cks-admission export configuration` prints all of it with its defaults; `docs/reference/configuration.md` is that text.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from webhook.configuration.rulesettings import (
    Address,
    ExceptionSettings,
    Globs,
    GuardSettings,
    LabelsSettings,
    LogFormat,
    LogLevel,
    Many,
    Model,
    Organization,
    PacksSettings,
    Policies,
    Port,
    SafetySettings,
    SelectorsSettings,
    ServiceUrl,
    SettingsError,
    Strings,
    SunkSettings,
    TolerationsSettings,
    TopologySettings,
    WorkloadSettings,
    field,
)

__all__ = ["Settings", "SettingsError"]

Content = Literal["none", "messages", "objects"]


class Listen(Model):
    """Where the API server reaches the service."""

    host: str = field("0.0.0.0", "Address to listen on.")  # noqa: S104 - a Pod is reached from other hosts
    port: Port = field(9443, "TLS port; 0 takes a free one.")
    max_in_flight: int = field(512, "Reviews answered at once; more get 503 with Retry-After.", ge=1)
    max_bytes_in_flight: int = field(
        64 * 1024 * 1024, "Bytes of bodies held at once; more get 503.", ge=16 * 1024 * 1024
    )
    body_seconds: float = field(
        3.0, "How long a body may take to arrive, within the time-out of its caller.", gt=0, le=30
    )
    max_connections: int = field(1024, "Connections at once; beyond, an idle one is closed for a new one.", ge=1)
    max_connections_per_address: int = field(768, "The same for one address; all API servers may call from one.", ge=1)
    connection_seconds: float = field(
        60.0, "How long a connection stays open, give or take a quarter; 0: as long as it is used.", ge=0
    )
    drain_seconds: float = field(
        5.0, "How long the port stays open after SIGTERM, while the service is not ready.", ge=0, le=600
    )
    grace_seconds: float = field(20.0, "How long requests in flight may take after that.", ge=0, le=600)


class Health(Model):
    """Where probes and Prometheus reach the service, over plain HTTP."""

    host: str = field("0.0.0.0", "Address to listen on.")  # noqa: S104 - kubelets and Prometheus come from outside
    port: Port = field(8081, "Port of /livez, /readyz and /metrics; 0 takes a free one.")


class Tls(Model):
    """The served certificate: a pair of files, or one that the service makes."""

    cert_file: str = field("", "Certificate chain, PEM; watched. Empty: the service makes its own.")
    key_file: str = field("", "Private key of certFile, PEM.")
    secret: str = field("", "Secret in cluster.namespace in which manage keeps the CA that all replicas share.")
    directory: str = field(".cks-admission/certs", "Where the service keeps the CA and pair that it makes.")
    client_ca_file: str = field(
        "", "CA bundle, PEM, watched: only callers with a certificate of these CAs get an answer."
    )
    names: Strings = field(
        ("localhost", "127.0.0.1"), "DNS names and IP addresses in the certificate that the service makes."
    )
    check_seconds: float = field(10.0, "How often the service checks the pair for changes and age.", gt=0)


class ClusterSettings(Model):
    """The cluster whose Namespaces, Nodes and claims rules read. Without one, they know only the request."""

    kubeconfig: str = field("", "Path of a kubeconfig.")
    in_cluster: bool = field(False, "Use the Pod's service account.")
    service_account: str = field("", "Directory with token and ca.crt of the service account; empty: the usual one.")
    namespace: str = field("cks-admission", "The Namespace in which the service runs.", min_length=1)
    lease: str = field("cks-admission", "Lease in that Namespace; its holder writes to the cluster.", min_length=1)
    cut_off_seconds: float = field(
        1800.0, "How long the API server may be silent before a replica is not ready.", ge=300
    )

    @property
    def is_given(self) -> bool:
        """Whether there is a cluster, and so a placer that opens the gates of Pods."""
        return bool(self.kubeconfig or self.in_cluster)


class Manage(Model):
    """The process `cks-admission manage`, which writes to the cluster what all replicas share."""

    apart: bool = field(False, "Whether it runs; then serve writes nothing that replicas share.")
    secret: str = field("", "Secret in cluster.namespace in which it keeps the replicas' certificate.")
    pods: str = field(
        "app.kubernetes.io/name=cks-admission,app.kubernetes.io/component=webhook",
        "Label selector of the replicas' Pods there.",
    )


class Place(Model):
    """The process `cks-admission place`, which chooses domains for gangs and opens the gates of their Pods."""

    apart: bool = field(False, "Whether it runs; then serve places nothing.")
    lease: str = field("cks-admission-placer", "Lease in cluster.namespace; its holder opens gates.", min_length=1)


class KeptRequirement(Model):
    """A requirement that a cloud adds to the namespaceSelector of every webhook, with NotIn or DoesNotExist."""

    key: str = Field(min_length=1, description="Label key.")
    values: Globs = field((), "Values allowed with NotIn, as globs.")


class Registration(Model):
    """The webhook configurations, by which the API server calls the service."""

    apply: bool = field(False, "Write them to the cluster, and repair them.")
    ca_only: bool = field(False, "Write only the caBundle, into configurations that somebody else applies.")
    name: str = field("cks-admission", "Name of both webhook configurations.", min_length=1)
    url: ServiceUrl = field("", "Base URL of the service, for one outside the cluster.")
    service: str = field("cks-admission", "Name of the Service, if url is empty.")
    service_port: Port = field(443, "Port of the Service.")
    ca_file: str = field("", "CA bundle for tls.certFile, PEM; not needed for the service's own CA.")
    inject_ca_from: str = field(
        "", "Certificate of cert-manager, as namespace/name, whose CA cert-manager writes into caBundle."
    )
    owner: str = field("", "ClusterRole that owns the configurations: Kubernetes deletes them when it is deleted.")
    kept: Many[KeptRequirement] = field(
        (),
        "Requirements that a cloud may add to namespaceSelectors. Namespaces with such labels escape all rules, the "
        "guard's too.",
    )
    timeout_seconds: int = field(5, "How long the API server waits for entries that fail closed.", ge=1, le=30)
    open_timeout_seconds: int = field(3, "The same for entries that fail open.", ge=1, le=30)
    essential_timeout_seconds: int = field(1, "The same for essential writes.", ge=1, le=30)

    @property
    def writes(self) -> bool:
        """Whether webhook configurations, or their caBundle, are written."""
        return self.apply or self.ca_only


class SampleSettings(Model):
    """Which answers are recorded."""

    verdicts: Annotated[
        Many[Literal["admit", "patch", "deny", "warn", "audit", "excepted", "error"]], Field(min_length=1)
    ] = Field(description="Verdicts: admit, patch, deny, warn, audit, excepted or error.")
    rules: Globs = field(("*",), "Names of rules and policies, as globs.")
    share: float = field(1.0, "Share of these answers to record, from 0 to 1.", ge=0, le=1)


class DecisionsSettings(Model):
    """The decision log: a JSON line for each sampled answer, apart from the logs on stderr."""

    log: str = field("", "File, or - for stdout. Empty: no log.")
    content: Content = field(
        "none",
        "none: identities, verdicts and field paths; messages: also messages and warnings; objects: all that replay "
        "needs. Secrets and values of environment variables are always masked.",
    )
    samples: Many[SampleSettings] = field(
        (SampleSettings(verdicts=("deny", "error")),),
        "The first entry with the rule and the verdict counts; without one, nothing is recorded. A list given here "
        "replaces this one.",
    )
    max_record_bytes: int = field(
        128 * 1024,
        "Size of a review or record beyond which messages and objects are left out.",
        ge=4096,
        le=1024 * 1024,
    )
    max_file_bytes: int = field(64 * 1024 * 1024, "Size at which the file is rotated.", ge=1024 * 1024)
    max_files: int = field(5, "How many rotated files are kept.", ge=1, le=100)


class TracingSettings(Model):
    """Traces of reviews, sent by OpenTelemetry's protocol. They hold identities and verdicts, no content of objects."""

    endpoint: Address = field(
        "", "Receiver that speaks OTLP over HTTP, such as http://collector.monitoring:4318; empty: no traces."
    )
    share: float = field(
        0.01, "Share of reviews that are traced, from 0 to 1; an API server that traces decides instead.", ge=0, le=1
    )
    rule_seconds: float = field(0.001, "Rules that take longer have spans of their own; 0: all.", ge=0)


class EventsSettings(Model):
    """Events on people's workloads."""

    refusals: bool = field(
        True,
        "Write an Event on a Deployment, JobSet or the like when its controllers are refused; once an hour for each "
        "rule.",
    )
    findings: bool = field(
        True,
        "Write an Event on a workload when an audit with reports finds that it, or what it owns, would be refused; "
        "again when its report changes.",
    )


class AuditSettings(Model):
    """The record of audits with reports."""

    record: str = field(
        "",
        "An existing ConfigMap in cluster.namespace. An audit of all Namespaces records there what it did, and manage "
        "makes metrics of it. Empty: neither happens.",
        max_length=253,
    )


class HelpSettings(Model):
    """Where people who are refused or warned can read on."""

    url: Address = field(
        "",
        "Address at the end of each refusal and of the last warning. {page} and {code} stand for a page of "
        "docs/refused and a heading on it: https://docs.example.org/refused/{page}/#{code}. Empty: none.",
    )


class Log(Model):
    """Logs, on stderr."""

    level: LogLevel = field("info", "debug, info, warning or error; admitted requests are logged at debug.")
    format: LogFormat = field("auto", "json, text, or auto: text on a terminal.")


class Settings(Model):
    """The whole configuration."""

    listen: Listen = field(Listen(), Listen.__doc__)
    health: Health = field(Health(), Health.__doc__)
    tls: Tls = field(Tls(), Tls.__doc__)
    cluster: ClusterSettings = field(ClusterSettings(), ClusterSettings.__doc__)
    manage: Manage = field(Manage(), Manage.__doc__)
    place: Place = field(Place(), Place.__doc__)
    registration: Registration = field(Registration(), Registration.__doc__)
    organization: Organization = field(Organization(), Organization.__doc__)
    labels: LabelsSettings = field(LabelsSettings(), LabelsSettings.__doc__)
    guard: GuardSettings = field(GuardSettings(), GuardSettings.__doc__)
    tolerations: TolerationsSettings = field(TolerationsSettings(), TolerationsSettings.__doc__)
    sunk: SunkSettings = field(SunkSettings(), SunkSettings.__doc__)
    topology: TopologySettings = field(TopologySettings(), TopologySettings.__doc__)
    selectors: SelectorsSettings = field(SelectorsSettings(), SelectorsSettings.__doc__)
    packs: PacksSettings = field(PacksSettings(), PacksSettings.__doc__)
    policies: Policies = field(Policies(), Policies.__doc__)
    safety: SafetySettings = field(SafetySettings(), SafetySettings.__doc__)
    workloads: Many[WorkloadSettings] = field((), WorkloadSettings.__doc__)
    exceptions: Many[ExceptionSettings] = field((), ExceptionSettings.__doc__)
    decisions: DecisionsSettings = field(DecisionsSettings(), DecisionsSettings.__doc__)
    tracing: TracingSettings = field(TracingSettings(), TracingSettings.__doc__)
    events: EventsSettings = field(EventsSettings(), EventsSettings.__doc__)
    audit: AuditSettings = field(AuditSettings(), AuditSettings.__doc__)
    help: HelpSettings = field(HelpSettings(), HelpSettings.__doc__)
    log: Log = field(Log(), Log.__doc__)
