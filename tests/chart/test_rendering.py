"""What the sets of values of the matrix render to."""

from __future__ import annotations

from math import ceil
from pathlib import Path
from typing import Any

import pytest
import yaml

from chart.generate import GOLDEN
from chart.matrix import CA, MATRIX, NEEDS
from chart.rendering import CHART, NAMESPACE, Entry, Rendered, render, run, template
from webhook.configuration.settings import Settings
from webhook.configuration.settingsfile import read

_CORE = {
    "ConfigMap/cks-admission", "Deployment/cks-admission", "PodDisruptionBudget/cks-admission", "Service/cks-admission",
}  # fmt: skip
_UNPLACED = {
    "ClusterRole/cks-admission", "ClusterRoleBinding/cks-admission", "Role/cks-admission", "RoleBinding/cks-admission",
    "ServiceAccount/cks-admission", "FlowSchema/cks-admission", "Deployment/cks-admission-manage",
    "ClusterRole/cks-admission-manage", "ClusterRoleBinding/cks-admission-manage", "Role/cks-admission-manage",
    "RoleBinding/cks-admission-manage", "ServiceAccount/cks-admission-manage",
}  # fmt: skip
_PLACER = {
    "Deployment/cks-admission-placer", "ServiceAccount/cks-admission-placer", "ClusterRole/cks-admission-placer",
    "ClusterRoleBinding/cks-admission-placer", "Role/cks-admission-placer", "RoleBinding/cks-admission-placer",
    "PodDisruptionBudget/cks-admission-placer",
    "ValidatingAdmissionPolicy/cks-admission-placer", "ValidatingAdmissionPolicyBinding/cks-admission-placer",
    *(f"{kind}/cks-admission-release" for kind in ("ClusterRole", "ClusterRoleBinding", "Job", "ServiceAccount")),
}  # fmt: skip
_SECRET = {"Secret/cks-admission-ca", "Secret/cks-admission-tls"}
_RIGHTS = _UNPLACED | _PLACER
_HOOK = {f"{kind}/cks-admission-unregister" for kind in ("ClusterRole", "ClusterRoleBinding", "Job", "ServiceAccount")}
_MANAGED = _CORE | _RIGHTS | _HOOK
_NO_ROLE = {"Role/cks-admission", "RoleBinding/cks-admission"}
_WEBHOOKS = {"MutatingWebhookConfiguration/cks-admission", "ValidatingWebhookConfiguration/cks-admission"}
_FILES = {f"ConfigMap/cks-admission-{part}" for part in ("policies", "exceptions", "topologies")}
_ISSUED = {"Certificate/cks-admission"}
_NETWORK = {"NetworkPolicy/cks-admission", "NetworkPolicy/cks-admission-manage", "NetworkPolicy/cks-admission-placer"}
_AUDIT = {
    f"{kind}/cks-admission-audit"
    for kind in ("ClusterRole", "ClusterRoleBinding", "ConfigMap", "CronJob", "Role", "RoleBinding")
}
_AUDITOR = {"ServiceAccount/cks-admission-audit"}
_AUTHORITY = {
    "Certificate/cks-admission-root", "Issuer/cks-admission", "Issuer/cks-admission-self-signed",
}  # fmt: skip

OBJECTS = {
    "default": _MANAGED | _SECRET,
    "policies": _MANAGED | _SECRET | _FILES,
    "policies-as-files": _MANAGED | _SECRET | _FILES,
    "shadow": _MANAGED | _SECRET | {"ConfigMap/cks-admission-shadow"},
    "rules-off": (_MANAGED | _SECRET) - _NO_ROLE - _PLACER,
    "pods-untouched": (_MANAGED | _SECRET) - _PLACER,
    "deletion-unwatched": _MANAGED | _SECRET,
    "workload-scheduling": _MANAGED | _SECRET,
    "workload-scheduling-rendered": _CORE | _RIGHTS | _WEBHOOKS,
    "more-workloads": _MANAGED | _SECRET,
    "cert-manager": _MANAGED | _ISSUED | _AUTHORITY,
    "cert-manager-issuer": _MANAGED | _ISSUED,
    "secret": _MANAGED,
    "secret-bundle": _MANAGED | {"ConfigMap/cks-admission-client-ca"},
    "client-ca": _MANAGED | _SECRET,
    "rendered": _CORE | _RIGHTS | _WEBHOOKS | _SECRET,
    "rendered-cert-manager": _CORE | _RIGHTS | _WEBHOOKS | _ISSUED | _AUTHORITY,
    "rendered-secret": _CORE | _RIGHTS | _WEBHOOKS,
    "rendered-export": _CORE | _RIGHTS | _WEBHOOKS | _SECRET,
    "rendered-secret-ca": _CORE | _RIGHTS | _WEBHOOKS,
    "rendered-without-access": _CORE | _WEBHOOKS,
    "rendered-system-roots": _CORE | _WEBHOOKS,
    "none": _CORE | _RIGHTS | _SECRET,
    "none-without-access": _CORE | _FILES,
    "url": _MANAGED | _SECRET,
    "scaled": _MANAGED | _SECRET | {"HorizontalPodAutoscaler/cks-admission"},
    "one": (_CORE | _RIGHTS | _SECRET)
    - {"PodDisruptionBudget/cks-admission", "PodDisruptionBudget/cks-admission-placer"},
    "placed": _MANAGED | _SECRET,
    "named": {f"{kind}/guard" for kind in ("ConfigMap", "Deployment", "PodDisruptionBudget", "Service")}
    | {"Job/guard-unregister", "Secret/guard-ca"}
    | {
        "Secret/guard-tls",
        "Deployment/guard-manage",
        "FlowSchema/guard",
        "Deployment/guard-placer",
        "Job/guard-release",
    }
    | {"PodDisruptionBudget/guard-placer", "ValidatingAdmissionPolicy/guard-placer"}
    | {"ValidatingAdmissionPolicyBinding/guard-placer"},
    "no-gates": (_MANAGED | _SECRET) - _PLACER,
    "on-host": (_MANAGED | _SECRET) - {"FlowSchema/cks-admission"},
    "network-policy": _MANAGED | _SECRET | _NETWORK,
    "network-policy-peers": _MANAGED | _SECRET | _NETWORK,
    "tracing": _MANAGED | _SECRET | _NETWORK,
    "tracing-without-access": _CORE | {"NetworkPolicy/cks-admission"},
    "network-policy-without-access": _CORE | {"NetworkPolicy/cks-admission"},
    "audit": _MANAGED | _SECRET | _AUDIT | _AUDITOR,
    "audit-of-everything": (_MANAGED | _SECRET | _FILES | _AUDIT) - _NO_ROLE - _PLACER,
    "dashboard": _MANAGED | _SECRET | {"ConfigMap/cks-admission-dashboard"},
    "pod-monitor": _MANAGED
    | _SECRET
    | _AUDIT
    | _AUDITOR
    | {"PodMonitor/cks-admission", "PrometheusRule/cks-admission"},
    "service-monitor": _CORE | {"PrometheusRule/cks-admission", "ServiceMonitor/cks-admission"},
}
_LINTED = ("default", "cert-manager", "secret", "rendered", "none-without-access", "network-policy", "pod-monitor")
_MOUNTED_ALWAYS = {"tmp", "config"}


@pytest.mark.parametrize("name", MATRIX)
def test_a_set_of_values_renders_to_these_objects(entry: Entry, name: str) -> None:
    """Each mode has the objects that it needs, and no others."""
    assert entry(name).names == sorted(OBJECTS[name])


@pytest.mark.parametrize("name", _LINTED)
def test_helm_finds_nothing_wrong(name: str) -> None:
    """`helm lint` accepts the chart in each mode."""
    assert (
        "0 chart(s) failed" in run("lint", str(CHART), "--strict", "--quiet", values=MATRIX[name]) + "0 chart(s) failed"
    )


def test_the_groups_that_the_matrix_needs_are_told(entry: Entry) -> None:
    """Who applies the matrix knows for which sets he needs which CustomResourceDefinitions."""
    found = {
        name: group
        for name in MATRIX
        for group in ("cert-manager.io", "monitoring.coreos.com")
        if any(each["apiVersion"].startswith(f"{group}/") for each in entry(name).objects)
    }
    assert found == NEEDS


def test_the_default_is_the_reviewed_one() -> None:
    """The default manifests are those in golden/default.yaml: whoever changes them sees what that comes to."""
    assert template() == GOLDEN.read_text(encoding="utf-8")


def _settings(rendered: Rendered, directory: Path, name: str = NAMESPACE) -> Settings:
    file = directory / "cks.yaml"
    file.write_text(rendered.one("ConfigMap", name)["data"]["cks.yaml"], encoding="utf-8")
    return read(file)


def _name(entry_name: str) -> str:
    return "guard" if entry_name == "named" else NAMESPACE


@pytest.mark.parametrize("name", MATRIX)
def test_the_configuration_is_accepted_and_fits_its_pod(entry: Entry, tmp_path: Path, name: str) -> None:
    """The service reads it; folders that it names are mounted, its ports open, and there is time to drain."""
    rendered = entry(name)
    settings = _settings(rendered, tmp_path, _name(name))
    deployment = rendered.one("Deployment", _name(name))
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]

    folders = (*settings.policies.directories, *settings.policies.shadow, *settings.topology.files)
    files = [
        settings.tls.cert_file, settings.tls.key_file, settings.tls.client_ca_file, settings.registration.ca_file,
        f"{settings.cluster.service_account}/" if settings.cluster.service_account else "",
        *(f"{folder}/" for folder in folders),
    ]  # fmt: skip
    mounts = {mount["mountPath"].removeprefix("/etc/cks-admission/").strip("/") for mount in container["volumeMounts"]}
    assert mounts == _MOUNTED_ALWAYS | {file.partition("/")[0] for file in files if file}
    assert {volume["name"] for volume in pod["volumes"]} == mounts
    assert container["ports"] == [
        {"name": "webhook", "containerPort": settings.listen.port},
        {"name": "health", "containerPort": settings.health.port},
    ]
    ending = settings.listen.drain_seconds + settings.listen.grace_seconds
    assert pod["terminationGracePeriodSeconds"] == ceil(ending) + 10
    assert settings.cluster.namespace == NAMESPACE
    assert (
        settings.registration.name
        == settings.registration.service
        == rendered.one("Service", _name(name))["metadata"]["name"]
    )


# On the network of Nodes and on OpenShift they have tests of their own.
@pytest.mark.parametrize("name", [name for name in MATRIX if name != "on-host"])
def test_pods_are_restricted(entry: Entry, name: str) -> None:
    """Every Pod meets Kubernetes' restricted standard, with a root that it cannot write and no token but its own."""
    pods = [each["spec"]["template"]["spec"] for each in entry(name).objects if each["kind"] in ("Deployment", "Job")]
    assert [_security(pod) for pod in pods] == [_RESTRICTED] * len(pods)


_RESTRICTED = {
    "pod": {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "fsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    },
    "container": {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    },
    "token": False,
    "host": set(),
}


def _security(pod: dict[str, Any]) -> dict[str, Any]:
    (container,) = pod["containers"]
    return {
        "pod": pod["securityContext"],
        "container": container["securityContext"],
        "token": pod["automountServiceAccountToken"],
        "host": {key for key in pod if key.startswith("host")},
    }


@pytest.mark.parametrize("name", [name for name, values in MATRIX.items() if "cluster" in values])
def test_without_access_there_is_neither_token_nor_right(entry: Entry, name: str) -> None:
    """A Pod without cluster access has no account of its own, no token in any form, and no role."""
    rendered = entry(name)
    projected = [volume for volume in rendered.pod["volumes"] if "projected" in volume]

    assert (rendered.pod["serviceAccountName"], projected) == ("default", [])
    assert not [each for each in rendered.names if each.startswith(("ServiceAccount", "Role", "ClusterRole"))]


def test_the_certificate_has_the_names_that_are_called(entry: Entry, tmp_path: Path) -> None:
    """The names are those of the Service, with the cluster's domain if it is given, of the URL, and the operator's."""
    service = "cks-admission.cks-admission.svc"
    issued = entry("cert-manager").one("Certificate")["spec"]

    assert _settings(entry("default"), tmp_path).tls.names == (service,)
    assert _settings(entry("url"), tmp_path).tls.names == (service, f"{service}.cluster.local", "192.0.2.1")
    assert (issued["dnsNames"], issued["ipAddresses"]) == ([service, "admission.example.org"], ["192.0.2.1"])


def test_the_ca_is_found_in_each_mode(entry: Entry, tmp_path: Path) -> None:
    """Whoever fills in caBundle knows where the CA is: in the Secret, in the chart's own file, or at cert-manager's."""
    found = {}
    rendered = ("rendered", "rendered-cert-manager", "rendered-secret", "rendered-secret-ca", "rendered-system-roots")
    for name in ("default", "cert-manager", "cert-manager-issuer", "secret", "secret-bundle", *rendered):
        settings = _settings(entry(name), tmp_path)
        tls, registration = settings.tls, settings.registration
        found[name] = (
            tls.secret,
            tls.cert_file,
            registration.ca_file,
            registration.inject_ca_from,
            registration.ca_only,
        )

    assert found == {
        "default": ("cks-admission-ca", "tls/tls.crt", "", "", False),
        "cert-manager": ("", "tls/tls.crt", "tls/ca.crt", "cks-admission/cks-admission", False),
        "cert-manager-issuer": ("", "tls/tls.crt", "tls/ca.crt", "", False),
        "secret": ("", "tls/tls.crt", "tls/ca.crt", "", False),
        "secret-bundle": ("", "tls/tls.crt", "config/ca-bundle.crt", "", False),
        "rendered": ("cks-admission-ca", "tls/tls.crt", "", "", True),
        "rendered-cert-manager": ("", "tls/tls.crt", "tls/ca.crt", "cks-admission/cks-admission", False),
        "rendered-secret": ("", "tls/tls.crt", "config/ca-bundle.crt", "", False),
        "rendered-secret-ca": ("", "tls/tls.crt", "tls/ca.crt", "", True),
        "rendered-system-roots": ("", "tls/tls.crt", "", "", False),
    }
    assert entry("secret-bundle").one("ConfigMap")["data"]["ca-bundle.crt"] == CA


def test_resources_can_be_replaced(entry: Entry) -> None:
    """What the operator says takes the place of what is derived."""
    assert entry("default").container["resources"] == {
        "requests": {"cpu": "100m", "memory": "128Mi"},
        "limits": {"memory": "896Mi"},
    }
    assert entry("placed").container["resources"] == {"requests": {"cpu": "1", "memory": "1Gi"}}


@pytest.mark.parametrize(
    "listen", [{}, {"maxBytesInFlight": 100_000_000}, {"maxConnections": 3001}, {"maxInFlight": 9}]
)
def test_the_memory_limit_is_derived_from_the_settings(listen: dict[str, int]) -> None:
    """It is the sum of process, bytes in flight, 320 KiB for each connection, and child processes."""
    settings = Settings.model_validate({"listen": listen}).listen
    parts = (128, ceil(settings.max_bytes_in_flight / 2**20), ceil(settings.max_connections * 320 / 1024), 256, 128)

    limits = render({"config": {"listen": listen}}).container["resources"]["limits"]

    assert limits == {"memory": f"{sum(parts)}Mi"}


def test_policies_come_by_one_way(entry: Entry) -> None:
    """ConfigMaps with policies are labelled where the service follows them, and mounted where it does not."""
    label = {"cks-admission.dev/policies": "true"}
    found = {}
    for name in ("policies", "policies-as-files", "none-without-access"):
        rendered = entry(name)
        parts = [rendered.one("ConfigMap", f"cks-admission-{part}") for part in ("policies", "exceptions")]
        labelled = all(part["metadata"]["labels"].items() >= label.items() for part in parts)
        mounted = {"policies", "exceptions"} <= {volume["name"] for volume in rendered.pod["volumes"]}
        found[name] = {"labelled": labelled, "mounted": mounted}

    assert found == {
        "policies": {"labelled": True, "mounted": False},
        "policies-as-files": {"labelled": False, "mounted": True},
        "none-without-access": {"labelled": False, "mounted": True},
    }


def test_an_autoscaler_sets_the_replicas(entry: Entry) -> None:
    """With an autoscaler the Deployment says no number, or each upgrade would set it back."""
    assert entry("default").one("Deployment")["spec"]["replicas"] == 3
    assert "replicas" not in entry("scaled").one("Deployment")["spec"]


def test_a_network_policy_lets_through_what_is_needed(entry: Entry) -> None:
    """Callers, monitoring, names and the API server: anybody or the peers that are given, and nothing else."""
    dns = {"ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]}
    api = [{"protocol": "TCP", "port": 443}, {"protocol": "TCP", "port": 6443}]
    webhook, health = ([{"protocol": "TCP", "port": port}] for port in (9443, 8081))
    receiver = [{"protocol": "TCP", "port": 4318}]
    servers = [{"ipBlock": {"cidr": "192.0.2.0/24"}}]
    monitoring = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
    component = {"app.kubernetes.io/instance": "cks-admission", "app.kubernetes.io/name": "cks-admission"}
    manage = {"podSelector": {"matchLabels": {**component, "app.kubernetes.io/component": "manage"}}}
    found = {}
    networks = ("network-policy", "network-policy-peers", "network-policy-without-access")
    for name in (*networks, "tracing", "tracing-without-access"):
        spec = entry(name).one("NetworkPolicy")["spec"]
        assert spec["policyTypes"] == ["Ingress", "Egress"]
        found[name] = (spec["ingress"], spec["egress"])

    assert found == {
        "network-policy": ([{"ports": webhook}, {"ports": health}], [dns, {"ports": api}]),
        "network-policy-peers": (
            [{"ports": webhook, "from": [*servers, manage]}, {"ports": health, "from": [*monitoring, manage]}],
            [dns, {"ports": api, "to": servers}],
        ),
        "network-policy-without-access": ([{"ports": webhook}, {"ports": health}], []),
        "tracing": ([{"ports": webhook}, {"ports": health}], [dns, {"ports": api}, {"ports": receiver}]),
        "tracing-without-access": ([{"ports": webhook}, {"ports": health}], [dns, {"ports": api[:1]}]),
    }


def test_a_receiver_of_traces_is_told_to_the_replicas(entry: Entry) -> None:
    """Receiver and share are in the configuration, which may say more; headers come from a Secret, as a variable."""
    env = entry("tracing").container["env"]

    assert yaml.safe_load(entry("tracing").configuration)["tracing"] == {
        "endpoint": "http://collector.monitoring:4318",
        "share": 1,
    }
    assert env[1:] == [
        {
            "name": "OTEL_EXPORTER_OTLP_HEADERS",
            "valueFrom": {"secretKeyRef": {"name": "receiver", "key": "headers"}},
        }
    ]
    assert "tracing" not in yaml.safe_load(entry("default").configuration)
    assert [each["name"] for each in entry("tracing-without-access").container["env"]] == ["POD_NAME"]


def test_what_the_operator_says_of_pods_is_in_them(entry: Entry) -> None:
    """Image, place, labels, annotations and environment are those of the values; the selector's labels stay."""
    deployment = entry("placed").one("Deployment")
    metadata, pod = deployment["spec"]["template"]["metadata"], entry("placed").pod

    assert entry("placed").container["image"] == "images.example.org:5000/cks-admission@sha256:" + 64 * "a"
    assert metadata["labels"] == deployment["spec"]["selector"]["matchLabels"] | {
        "example.org/team": "platform",
        "example.org/cost": "7",
    }
    assert metadata["annotations"]["example.org/note"] == "yes"
    assert [each["name"] for each in entry("placed").container["env"]] == ["POD_NAME", "HTTPS_PROXY"]
    assert {key: pod.get(key) for key in ("nodeSelector", "tolerations", "priorityClassName", "imagePullSecrets")} == {
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [
            {"key": f"node.kubernetes.io/{lost}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}
            for lost in ("not-ready", "unreachable")
        ],
        "priorityClassName": None,
        "imagePullSecrets": [{"name": "pull"}],
    }


def test_every_object_has_the_common_labels(entry: Entry) -> None:
    """A label for all objects is on all objects."""
    assert {each["metadata"]["labels"].get("example.org/cost") for each in entry("placed").objects} == {"7"}


def test_parts_of_a_cluster_are_audited_at_once(entry: Entry) -> None:
    """One Pod audits all; several get their parts from their index in the Job. Nobody's Pods make room for them."""
    jobs = [
        entry(name).one("CronJob", "cks-admission-audit")["spec"]["jobTemplate"]["spec"]
        for name in ("audit", "audit-of-everything")
    ]
    keys = ("completionMode", "completions", "parallelism")
    (one,), (many,) = (job["template"]["spec"]["containers"] for job in jobs)

    assert [[job.get(key) for key in keys] for job in jobs] == [[None, None, None], ["Indexed", 4, 4]]
    assert [argument for argument in one["args"] if "shard" in argument] == []
    assert many["args"] == [
        "audit", "--config=config/cks.yaml", "--output=reports", "--qps=10", "--shard=$(JOB_COMPLETION_INDEX)/4",
    ]  # fmt: skip
    assert [mount["name"] for mount in many["volumeMounts"]] == [
        "tmp", "config", "exceptions", "policies", "topologies", "serviceaccount",
    ]  # fmt: skip
    assert [job["template"]["spec"].get("priorityClassName") for job in jobs] == [None, None]
