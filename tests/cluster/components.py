"""The command line of each component of the control plane, with the reason for each flag."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cluster.authority import Authority

PORTS = ("etcd", "etcd-peer", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")

OWN_PODS = "app.kubernetes.io/name=cks-admission"
"""The Pods that kwok leaves to another kubelet, which really runs them."""

LASTS = {"example.org/lasts": "true"}
"""The label of Pods of a Job that run until somebody deletes them; kwok completes the others at once."""

# Who each client component is. None is in system:masters: a proof about exempt requesters could not fail otherwise.
# (Inside kube-apiserver its own loopback client, system:apiserver, is in it; that is so in every cluster.)
IDENTITIES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "kube-controller-manager": ("system:kube-controller-manager", ()),
    "kube-scheduler": ("system:kube-scheduler", ()),
    "kwok": ("kwok", ()),
}


@dataclass(frozen=True)
class Layout:
    """Where the components of one control plane find the programs, their files and each other."""

    tools: Path
    directory: Path
    ports: Mapping[str, int]
    authority: Authority
    kubeconfigs: Mapping[str, Path]
    audited: Sequence[str] = ("admin",)
    """The users whose requests are audited: those that change something, and of others than the admin all."""
    presents_certificate: bool = False
    """Whether the API server shows webhooks a client certificate."""
    gates: Sequence[str] = ()
    """Feature gates that are on in the API server, the controllers and the scheduler."""
    apis: Sequence[str] = ()
    """Versions of APIs that are off by default and served here, such as scheduling.k8s.io/v1alpha2."""
    admission: Path | None = None
    """An AdmissionConfiguration."""

    @property
    def server(self) -> str:
        """The address of the API server."""
        return f"https://127.0.0.1:{self.ports['kube-apiserver']}"

    @property
    def audit_log(self) -> Path:
        """Where the API server writes what the admin changes, a JSON object per line."""
        return self.directory / "logs" / "audit.log"


def etcd(layout: Layout) -> list[str]:
    """Return etcd's command line: one member, and no fsync, because nothing here needs to survive a power cut."""
    client = f"http://127.0.0.1:{layout.ports['etcd']}"
    peer = f"http://127.0.0.1:{layout.ports['etcd-peer']}"
    return [
        str(layout.tools / "etcd"),
        "--name=test",
        f"--data-dir={layout.directory / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=test={peer}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def kube_apiserver(layout: Layout) -> list[str]:
    """Return the API server's command line: certificates say who asks, Node and RBAC what they may."""
    private, public = layout.authority.signing_pair("service-account")
    return [
        str(layout.tools / "kube-apiserver"),
        f"--etcd-servers=http://127.0.0.1:{layout.ports['etcd']}",
        *_serving(layout, "kube-apiserver"),
        f"--client-ca-file={layout.authority.ca_file}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-signing-key-file={private}",
        f"--service-account-key-file={public}",
        "--service-cluster-ip-range=10.96.0.0/24",
        "--allow-privileged=true",
        # Without these it looks for an address of this machine to announce, and fails where there is only loopback.
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        # The audit annotations of admission policies show nowhere else.
        f"--audit-log-path={layout.audit_log}",
        f"--audit-policy-file={_audit_policy(layout)}",
        f"--tracing-config-file={_tracing(layout)}",
        *([f"--admission-control-config-file={_credentials(layout)}"] if layout.presents_certificate else []),
        *([f"--admission-control-config-file={layout.admission}"] if layout.admission else []),
        *([f"--runtime-config={','.join(f'{api}=true' for api in layout.apis)}"] if layout.apis else []),
        *_gates(layout),
    ]


def _credentials(layout: Layout) -> Path:
    """Write what the API server shows to webhooks: one certificate for all, by the cluster's CA."""
    kubeconfig = layout.directory / "webhook-client.kubeconfig"
    layout.authority.certificate_kubeconfig(kubeconfig, layout.server, "kube-apiserver-webhook-client", [])
    # The name of a user there is the webhook's host, and the star any host.
    # https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#authenticate-apiservers
    written = kubeconfig.read_text(encoding="utf-8")
    kubeconfig.write_text(written.replace("name: kube-apiserver-webhook-client", "name: '*'"), encoding="utf-8")
    version = "apiserver.config.k8s.io/v1"
    plugin = {"apiVersion": version, "kind": "WebhookAdmissionConfiguration", "kubeConfigFile": str(kubeconfig)}
    names = ("ValidatingAdmissionWebhook", "MutatingAdmissionWebhook")
    plugins = [{"name": name, "configuration": plugin} for name in names]
    path = layout.directory / "admission.json"
    path.write_text(json.dumps({"apiVersion": version, "kind": "AdmissionConfiguration", "plugins": plugins}))
    return path


def _tracing(layout: Layout) -> Path:
    """Write that it traces what an administrator asks it to trace, and nothing else. Nobody receives its spans."""
    traced = {"endpoint": "127.0.0.1:9", "samplingRatePerMillion": 0}
    path = layout.directory / "tracing.json"
    version = "apiserver.config.k8s.io/v1"
    path.write_text(json.dumps({"apiVersion": version, "kind": "TracingConfiguration", **traced}), encoding="utf-8")
    return path


def _audit_policy(layout: Layout) -> Path:
    """Write what is audited: changes made by the admin, which only tests make; without the objects."""
    changes = {"level": "Metadata", "users": ["admin"], "verbs": ["create", "update", "delete"]}
    rules: list[dict[str, object]] = [{**changes, "omitStages": ["ResponseStarted"]}]
    if others := [user for user in layout.audited if user != "admin"]:
        rules.append({"level": "Metadata", "users": others})
    rules.append({"level": "None"})
    policy = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],  # of a watch that goes on there is nothing but that its answer began
        "rules": rules,
    }
    path = layout.directory / "audit-policy.json"
    path.write_text(json.dumps(policy), encoding="utf-8")
    return path


def kube_controller_manager(layout: Layout) -> list[str]:
    """Return its command line: each controller acts as a service account of its own, as in a real cluster."""
    name = "kube-controller-manager"
    return [
        str(layout.tools / name),
        f"--kubeconfig={layout.kubeconfigs[name]}",
        *_serving(layout, name),
        "--leader-elect=false",
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={layout.directory / 'service-account.key'}",
        f"--root-ca-file={layout.authority.ca_file}",
        # Its defaults (20 per second) keep a test waiting that makes a few dozen objects.
        "--kube-api-qps=200",
        "--kube-api-burst=400",
        f"--flex-volume-plugin-dir={layout.directory / 'flexvolume'}",  # it would make one in /usr/libexec
        *_gates(layout),
    ]


def kube_scheduler(layout: Layout) -> list[str]:
    """Return the scheduler's command line."""
    name = "kube-scheduler"
    return [
        str(layout.tools / name),
        f"--kubeconfig={layout.kubeconfigs[name]}",
        *_serving(layout, name),
        "--leader-elect=false",
        *_gates(layout),
    ]


def kwok(layout: Layout) -> list[str]:
    """Return the command line of kwok, which plays the kubelets of all Nodes with its annotation."""
    return [
        str(layout.tools / "kwok"),
        f"--kubeconfig={layout.kubeconfigs['kwok']}",
        f"--config={Path(__file__).with_name('stages.yaml')}",
        "--manage-all-nodes=false",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        "--node-lease-duration-seconds=40",
        f"--disregard-status-with-label-selector={OWN_PODS}",
        f"--server-address=127.0.0.1:{layout.ports['kwok']}",
    ]


def _serving(layout: Layout, name: str) -> list[str]:
    certificate, key = layout.authority.serving(name)
    return [
        "--bind-address=127.0.0.1",
        f"--secure-port={layout.ports[name]}",
        f"--tls-cert-file={certificate}",
        f"--tls-private-key-file={key}",
        f"--cert-dir={layout.directory}",
    ]


def _gates(layout: Layout) -> list[str]:
    return [f"--feature-gates={','.join(f'{gate}=true' for gate in layout.gates)}"] if layout.gates else []
