"""Values of the chart in all its modes: each set renders, and a real API server accepts what it renders to."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any, Final

from webhook.cli import options
from webhook.cli.output import to_yaml
from webhook.configuration.settings import Settings
from webhook.registration.configurations import registered

Values = dict[str, Any]

CA: Final = """\
-----BEGIN CERTIFICATE-----
MIIBiTCCAS+gAwIBAgIUFcbJ9mX0LwINitZ5f92sjNcbV3gwCgYIKoZIzj0EAwIw
IDEeMBwGA1UEAwwVQSBDQSBvZiBzb21lYm9keSBlbHNlMCAXDTI1MTIzMTIzMDAw
MFoYDzIxMjUxMjA4MDAwMDAwWjAgMR4wHAYDVQQDDBVBIENBIG9mIHNvbWVib2R5
IGVsc2UwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQiEKPPv/N4KTXI1UIgOUiZ
s6XYtpPmbVxNztYRYfscEUw8ZX+PDvdOFcq+KrLqeBW8ETIrbrSFreRpX0NmzUXt
o0UwQzAdBgNVHQ4EFgQUG8T4Q0dkIHcA+dxgRoOdlSUZGlwwEgYDVR0TAQH/BAgw
BgEB/wIBADAOBgNVHQ8BAf8EBAMCAQYwCgYIKoZIzj0EAwIDSAAwRQIgC5N+kXnx
1f89gdkpPnGkhGigu5oQzzNbOKEZF33EBaICIQCr92uNls0BJp/7Rh38V4oi1s0d
qV4DvUJCOh38NeKzqg==
-----END CERTIFICATE-----
"""
"""A CA, valid until 2125. Its key is gone."""

POLICY: Final = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: named-owner}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}
  validations:
  - expression: has(object.metadata.labels) && 'owner' in object.metadata.labels
    message: A Deployment names its owner.
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: named-owner}
spec: {policyName: named-owner, validationActions: [Deny]}
"""
EXCEPTION: Final = """\
apiVersion: cks-admission.dev/v1
kind: PolicyException
metadata: {name: nobody-left}
spec: {policies: [named-owner], reason: "Its owner has left.", until: "2099-12-31", match: {namespaces: [old-*]}}
"""
TOPOLOGY: Final = """\
apiVersion: kai.scheduler/v1alpha1
kind: Topology
metadata: {name: halls}
spec:
  levels: [{nodeLabel: example.org/hall}, {nodeLabel: kubernetes.io/hostname}]
"""
FILES: Final[Values] = {
    "policies": {"named-owner.yaml": POLICY},
    "exceptions": {"nobody-left.yaml": EXCEPTION},
    "topologies": {"halls.yaml": TOPOLOGY},
}
CONFIG: Final[Values] = {
    "labels": {"action": "warn", "exempt": {"controlPlaneNamespaces": ["platform"]}},
    "tolerations": {"action": False},
    "organization": {"id": "org-1234"},
}
"""A configuration with other rules than the default one."""

_UNTOLD: Final[Values] = {"events": {"refusals": False}}
_RULES_OFF: Final[Values] = {
    "topology": {"action": "off"},
    "sunk": {"daemonSets": "off"},
    "policies": {"configMaps": False, "native": False},
    **_UNTOLD,
}
_SCHEDULING: Final[Values] = {"topology": {"workloadScheduling": "on"}}
_GIVEN: Final[Values] = {"mode": "secret", "secretName": "given-tls"}
_NO_ACCESS: Final[Values] = {"cluster": {"access": False}, "certificates": _GIVEN}


def export(config: Values) -> str:
    """What `cks-admission export webhook-configuration` prints for a configuration."""
    settings = Settings.model_validate(config)
    ruleset = options.ruleset(settings, date.min)[1]
    return "---\n".join(to_yaml(each) for each in registered(settings, b"", ruleset))


MATRIX: Final[Mapping[str, Values]] = {
    "default": {},
    "policies": {**FILES, "config": {"exceptions": [{"rules": ["labels"], "reason": "r", "until": "2099-12-31"}]}},
    "policies-as-files": {**FILES, "config": {"policies": {"configMaps": False}}},
    "shadow": {"shadow": FILES["policies"], "config": {"decisions": {"log": "-"}}},
    "rules-off": {"config": _RULES_OFF},
    "pods-untouched": {"config": {"tolerations": {"action": "off"}, "topology": {"action": "off"}}},
    "deletion-unwatched": {"config": {"topology": {"deletion": "off"}, "sunk": {"action": "off"}, **_UNTOLD}},
    "workload-scheduling": {"config": {"topology": {"workloadScheduling": True, "deletion": False}, **_UNTOLD}},
    "workload-scheduling-rendered": {
        "config": _SCHEDULING,
        "registration": {"mode": "rendered", "configurations": export(_SCHEDULING)},
        "certificates": _GIVEN,
    },
    "more-workloads": {
        "config": {
            "workloads": [
                {"group": "example.org", "kind": "Policy", "templates": ["spec.template"]},
                {"group": "example.org", "kind": "Batch", "templates": ["spec.template"]},
                {"group": "example.org", "kind": "Pool", "nodeLabels": ["spec.labels"]},
            ]
        },
        "rbac": {"parameters": [{"apiGroups": ["example.org"], "resources": ["limits"], "verbs": ["list", "watch"]}]},
    },
    "cert-manager": {"certificates": {"mode": "certManager", "names": ["admission.example.org", "192.0.2.1"]}},
    "cert-manager-issuer": {
        "certificates": {
            "mode": "certManager",
            "certManager": {"issuerRef": {"name": "corporate", "kind": "ClusterIssuer"}, "injectCa": False},
        }
    },
    "secret": {"certificates": _GIVEN},
    "secret-bundle": {"certificates": {**_GIVEN, "caBundle": CA}, "clientCa": {"bundle": CA}},
    "client-ca": {"clientCa": {"configMap": "api-server-ca", "key": "client-ca.pem"}},
    "rendered": {"registration": {"mode": "rendered"}},
    "rendered-cert-manager": {"registration": {"mode": "rendered"}, "certificates": {"mode": "certManager"}},
    "rendered-secret": {"registration": {"mode": "rendered"}, "certificates": {**_GIVEN, "caBundle": CA}},
    "rendered-export": {
        "registration": {"mode": "rendered", "configurations": export(CONFIG)},
        "config": {**CONFIG, "registration": {"timeoutSeconds": 3}},
    },
    "rendered-secret-ca": {"registration": {"mode": "rendered"}, "certificates": _GIVEN},
    "rendered-without-access": {
        "cluster": {"access": False},
        "certificates": {**_GIVEN, "caBundle": CA},
        "registration": {"mode": "rendered"},
    },
    "rendered-system-roots": {
        "cluster": {"access": False},
        "certificates": {**_GIVEN, "caKey": ""},
        "registration": {"mode": "rendered"},
    },
    "none": {"registration": {"mode": "none"}},
    "none-without-access": {**_NO_ACCESS, "registration": {"mode": "none"}, **FILES},
    "url": {
        "config": {"registration": {"url": "https://192.0.2.1:8443"}, "listen": {"port": 8443, "graceSeconds": 12.5}},
        "clusterDomain": "cluster.local",
    },
    "scaled": {"autoscaling": {"enabled": True}, "spread": {"hosts": "DoNotSchedule", "zones": ""}},
    "one": {"replicas": 1, "podDisruptionBudget": {"enabled": False}, "unregister": {"enabled": False}},
    "placed": {
        "image": {"repository": "images.example.org:5000/cks-admission", "digest": "sha256:" + 64 * "a"},
        "imagePullSecrets": [{"name": "pull"}],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
        "priorityClassName": "",
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [],
        "affinity": {"podAntiAffinity": {}},
        "podAnnotations": {"example.org/note": "yes"},
        "podLabels": {"example.org/team": "platform"},
        "commonLabels": {"example.org/cost": "7"},
        "extraEnv": [{"name": "HTTPS_PROXY", "value": ""}],
        "service": {"port": 8443, "annotations": {"example.org/note": "yes"}},
    },
    "named": {
        "fullnameOverride": "guard",
        "rbac": {"create": False},
        "serviceAccount": {"create": False, "name": "guard-account"},
        "manage": {"serviceAccount": {"create": False, "name": "guard-manager"}},
        "placer": {"serviceAccount": {"create": False, "name": "guard-opener"}},
    },
    "no-gates": {
        "placer": {"enabled": False},
        "config": {"topology": {"placement": [{"ways": ["kueue", "workload", "affinity"]}]}},
    },
    "on-host": {
        "hostNetwork": True,
        "openshift": {"enabled": True},
        "flowSchema": {"enabled": False},
        "manage": {"replicas": 2, "resources": {"requests": {"cpu": "1"}}},
    },
    "network-policy": {"networkPolicy": {"enabled": True}},
    "network-policy-peers": {
        "networkPolicy": {
            "enabled": True,
            "apiServers": [{"ipBlock": {"cidr": "192.0.2.0/24"}}],
            "monitoring": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
            "apiServerAddresses": [{"ipBlock": {"cidr": "192.0.2.0/24"}}],
        }
    },
    "tracing": {
        "networkPolicy": {"enabled": True},
        "tracing": {"endpoint": "http://collector.monitoring:4318", "share": 1, "headersSecret": {"name": "receiver"}},
    },
    "tracing-without-access": {
        **_NO_ACCESS,
        "registration": {"mode": "none"},
        "networkPolicy": {"enabled": True},
        "config": {"tracing": {"endpoint": "https://collector.example.org/v1/traces"}},
    },
    "network-policy-without-access": {
        **_NO_ACCESS,
        "registration": {"mode": "none"},
        "networkPolicy": {"enabled": True},
    },
    "audit": {"audit": {"enabled": True}, "config": {"topology": {"workloadScheduling": "on"}}},
    "audit-of-everything": {
        "audit": {
            "enabled": True,
            "shards": 4,
            "kinds": [],
            "serviceAccount": {"create": False, "name": "auditor"},
            "resources": {"limits": {"memory": "1Gi"}},
        },
        "config": {
            "policies": {"configMaps": False, "native": False},
            "topology": {"action": "off"},
            "events": {"findings": False},
        },
        "rbac": {"parameters": [{"apiGroups": ["example.org"], "resources": ["limits"], "verbs": ["list", "watch"]}]},
        **FILES,
    },
    "dashboard": {"monitoring": {"dashboard": {"enabled": True, "annotations": {"grafana_folder": "Admission"}}}},
    "pod-monitor": {
        "monitoring": {
            "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
            "prometheusRule": {"enabled": True},
        },
        "audit": {"enabled": True},
    },
    "service-monitor": {
        **_NO_ACCESS,
        "registration": {"mode": "none"},
        "monitoring": {"serviceMonitor": {"enabled": True, "interval": "30s"}, "prometheusRule": {"enabled": True}},
    },
}
"""Sets of values by name. Their release is called `cks-admission`, in a Namespace of that name."""

NEEDS: Final[Mapping[str, str]] = {
    "cert-manager": "cert-manager.io",
    "cert-manager-issuer": "cert-manager.io",
    "rendered-cert-manager": "cert-manager.io",
    "pod-monitor": "monitoring.coreos.com",
    "service-monitor": "monitoring.coreos.com",
}
"""The API group beside Kubernetes' own that a set of values needs."""
