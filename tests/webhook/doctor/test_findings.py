"""What the checks say of installations: whole findings, which stand in findings.yaml by the name of the case."""

from __future__ import annotations

import base64
import copy
import re
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from string import Template
from typing import Any

import pytest
import yaml
from support.builders import Json
from support.policies.policydocuments import policy

from certs.material import Authority, new_authority
from policies import rbac
from policies.admissionpolicy.documents.document import Document
from policies.engine.facts import Node
from policies.engine.request import UserInfo
from policies.engine.safety import CONTROL_PLANE, CONTROL_PLANE_LABEL
from policies.labelpolicy import LabelWriter
from policies.labels import SUMMARY
from policies.topology.nodes.tree import Machine
from webhook.cluster.inspection.examination import component
from webhook.cluster.placer.gates import GatedPod
from webhook.configuration import roles, rules
from webhook.configuration.rules import safety
from webhook.configuration.settings import Settings
from webhook.doctor import checks, configurations, connection, processes
from webhook.doctor.checks import check_policies
from webhook.doctor.desired import make
from webhook.doctor.observation import (
    Component,
    Diagnosis,
    Endpoint,
    PlacerState,
    Probe,
    ShownChain,
    TopologyObjects,
    Unread,
)
from webhook.registration.configurations import STATIC, registered, static_policies
from webhook.registration.rights import Right
from webhook.sources import policyfiles

_FINDINGS: dict[str, dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("findings.yaml").read_text(encoding="utf-8")
)
_TEXTS = _FINDINGS.pop("texts")
_NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
_MUTATING, _VALIDATING = "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"
_CLOUD = {"namespace": "cloud"}
FORBIDDEN = Unread("the API server refused it", "list things")
Case = Iterable[Diagnosis]


def _settings(**sections: Any) -> Settings:
    return Settings.model_validate(sections)


def lines(findings: Case) -> list[str]:
    """A line for each finding. Fingerprints differ from run to run, and what is essential grows with the rules."""
    found = list(findings)
    assert len({finding.check for finding in found}) <= 1
    texts = (f"{one.level} {one.where}: {one.found}{f' -> {one.remedy}' if one.remedy else ''}" for one in found)
    named = (re.sub(r"\b([0-9a-f]{64}|[0-9a-f]{12}(?=\)))", "FINGERPRINT", text) for text in texts)
    return [re.sub(r"\band \d\d+ more", "and many more", text) for text in named]


# Only a refusal in the service's own name proves the way; an admission is judged by what was to be expected.


def _probe(status: int, message: str = "", *, should: Any = True, **more: Any) -> Case:
    return connection.check_probe(Probe("default", status, message), _settings(**more), should_refuse=should)


_DENIED = 'the API server refused it (403: admission webhook "{}" denied the request: no)'
_BY_POLICY = f"ValidatingAdmissionPolicy '{{}}' with binding '{{}}' denied request: {SUMMARY}"
_STATIC = {"labels": {"enforcedBy": "static"}}
_BINDING = static_policies(Settings())[1]["metadata"]["name"]
_PROBES: dict[str, Case] = {
    "refused": _probe(403, _DENIED.format("labels.cks-admission.dev")),
    "refused by the policy": _probe(403, _BY_POLICY.format("x", "x")),
    "refused by the policy, not in files": _probe(403, _BY_POLICY.format("x", "x"), **_STATIC),
    "refused by files": _probe(403, _BY_POLICY.format(f"x{STATIC}", f"{_BINDING}{STATIC}")),
    "refused by files, as chosen": _probe(403, _BY_POLICY.format(f"x{STATIC}", f"{_BINDING}{STATIC}"), **_STATIC),
    "refused by old files": _probe(403, _BY_POLICY.format(f"x{STATIC}", f"x-1{STATIC}"), **_STATIC),
    "not reached": _probe(500, 'the API server refused it (500: failed calling webhook "labels.cks-admission.dev": x)'),
    "admitted": _probe(201),
    "rightly admitted": _probe(201, should=False),
    "nobody knows": _probe(201, should=Unread("the settings are wrong")),
    "no right": _probe(403, "the API server refused it (403: configmaps is forbidden)"),
    "another webhook": _probe(403, _DENIED.format("guard.example.org")),
    "not sent": connection.check_probe(FORBIDDEN, Settings(), should_refuse=True),
    "no answer": connection.check_probe(Unread("no answer within 7 s"), Settings(), should_refuse=True),
}

# The Service is there, has the port that is dialled, and somebody is ready behind it; by a URL there is none.

SERVICE: Json = {"spec": {"ports": [{"name": "metrics", "port": 8081}, {"name": "https", "port": 443}]}}
SLICE: Json = {
    "ports": [{"name": "metrics", "port": 8081}, {"name": "https", "port": 9443}],
    "endpoints": [
        {"addresses": ["10.0.0.1"], "conditions": {"ready": True}},
        {"addresses": ["10.0.0.2"], "conditions": {"ready": False}},
        {"addresses": ["fd00::3"]},
    ],
}


def _address(service: Any, slices: Any, **registration: Any) -> Case:
    chosen = _settings(cluster=_CLOUD, registration={"service": "svc", **registration})
    return connection.check_address(chosen, service, slices)


_ADDRESSES: dict[str, Case] = {
    "fine": _address(SERVICE, [SLICE]),
    "no Service": _address(None, []),
    "another port": _address(SERVICE, [SLICE], servicePort=8443),
    "nobody is ready": _address(SERVICE, [{**SLICE, "endpoints": SLICE["endpoints"][1:2]}]),
    "no right": _address(SERVICE, FORBIDDEN),
    "a URL": _address(None, [], url="https://[fd00::1]:9443/"),
}

# Each feature that the API server lacks is told with what happens without; what is no version is no fault.

_GROUPS = {"admissionregistration.k8s.io": ("v1",), "resource.k8s.io": ("v1", "v1beta2")}


def _version(version: str = "v1.36.3", groups: Any = _GROUPS, **policies: Any) -> Case:
    return checks.check_api_server(version, groups, _settings(policies=policies))


_VERSIONS: dict[str, Case] = {
    "old": _version("v1.29.4-gke.1"),
    "old, without native policies": _version("v1.29.4-gke.1", native=False),
    "the newest": _version("v1.37.2"),
    "the one of the settings": _version("v1.36.9+k3s1", kubernetes="1.36"),
    "newer than proven": _version("v1.38.0"),
    "older than proven": _version("v1.35.1"),
    "another one in the settings": _version("v1.37.0", kubernetes="1.36"),
    "no v1": _version(groups={"admissionregistration.k8s.io": ("v1beta1",)}),
    "old claims": _version(groups={**_GROUPS, "resource.k8s.io": ("v1alpha3",)}),
    "no claims": _version(groups={"admissionregistration.k8s.io": ("v1",)}),
    "no version, no right": _version("main", FORBIDDEN),
}

# All that is wrong with what is served is told at once, with the caBundle and who puts it right.

_NAME = "svc.cloud.svc"
_OURS, _OTHER, _OLD = new_authority(_NOW), new_authority(_NOW), new_authority(_NOW - timedelta(days=345))
_FILES: dict[str, Any] = {"tls": {"certFile": "tls/tls.crt", "keyFile": "tls/tls.key"}}
_APART: dict[str, Any] = {"manage": {"apart": True, "secret": "leaf"}, "tls": {"secret": "ca", "certFile": "tls.crt"}}


def _chosen(**sections: Any) -> Settings:
    return _settings(**{"cluster": _CLOUD, "registration": {"service": "svc", "apply": True}, **sections})


def _entry(bundle: bytes, name: str = "labels.cks-admission.dev") -> Json:
    client: Json = {"service": {"name": "svc", "namespace": "cloud"}}
    return {"name": name, "clientConfig": {**client, "caBundle": base64.b64encode(bundle).decode()}}


def _served(authority: Authority, host: str = "10.0.0.1", name: str = _NAME, days: float = 7) -> ShownChain:
    leaf = authority.issue([name], _NOW, lifetime=timedelta(days=days))
    return ShownChain(Endpoint(_NAME, host, 9443), leaf.chain)


def _certificates(
    *served: ShownChain, bundle: bytes = _OURS.cert_pem, days: float = 0, proven: bool = False, **sections: Any
) -> Case:
    chosen = _chosen(**sections)
    trusted, wrong = connection.trusts({_VALIDATING: [_entry(bundle)]}, chosen)
    assert wrong == []
    return connection.check_certificates(served, trusted, chosen, _NOW + timedelta(days=days), proven=proven)


def _bundle(bundle: bytes, *others: Json, **sections: Any) -> Case:
    return connection.trusts({_VALIDATING: [_entry(bundle), *others]}, _chosen(**sections))[1]


def _secret(secret: Any, days: float = 0, **sections: Any) -> Case:
    chosen = _chosen(**sections)
    trusted = connection.trusts({_VALIDATING: [_entry(_OURS.cert_pem)]}, chosen)[0]
    found = connection.check_secrets(secret, None, trusted, chosen, _NOW + timedelta(days=days))
    return [one for one in found if one.where == "Secret cloud/ca"]


def _leaf(secret: Any, days: float = 0, **sections: Any) -> Case:
    found = connection.check_secrets(_STORED, secret, [], _chosen(**sections), _NOW + timedelta(days=days))
    return [one for one in found if one.where == "Secret cloud/leaf"]


_UNREACHED = ShownChain(Endpoint(_NAME, "10.0.0.1", 9443), Unread("no route"))
_STORED = {"ca.crt": _OURS.cert_pem, "ca.key": _OURS.key_pem}
_ISSUED = _OURS.issue([_NAME], _NOW)
_PAIR = {"tls.crt": _ISSUED.cert_pem, "tls.key": _ISSUED.key_pem, "ca.crt": _OURS.cert_pem}
_MORE = _entry(b"", "other.cks-admission.dev")
_CERTIFICATES: dict[str, Case] = {
    "another CA": _certificates(_served(_OTHER)),
    "another name, and expired": _certificates(_served(_OURS, name="other.example.org"), days=8, **_FILES),
    "ends soon": _certificates(_served(_OURS), days=5.5),
    "a short life, half over": _certificates(_served(_OURS, days=1), days=0.5),
    "a short life, nearly over": _certificates(_served(_OURS, days=1), days=0.7),
    "a CA that ends soon": _certificates(_served(_OLD), bundle=_OLD.cert_pem),
    "a CA for each replica": _certificates(
        _served(_OURS), _served(_OTHER, "10.0.0.2"), bundle=_OURS.cert_pem + _OTHER.cert_pem
    ),
    "not reached from outside": _certificates(_UNREACHED),
    "not reached inside": _certificates(_UNREACHED, cluster={**_CLOUD, "inCluster": True}),
    "reached by the API server": _certificates(_UNREACHED, proven=True, registration={"url": "https://127.0.0.1:9443"}),
    "of somebody else, without a caBundle": _certificates(_served(_OTHER), bundle=b"", **_FILES),
    "without configurations": connection.check_certificates([_served(_OTHER)], [], _chosen(), _NOW, proven=True),
    "ends soon, with manage": _certificates(_served(_OURS), days=6, **_APART),
    "a caBundle that is no PEM": _bundle(b"hello"),
    "a caBundle that cert-manager has not written": _bundle(b"", _MORE, registration={"injectCaFrom": "cloud/cert"}),
    "a caBundle that nobody has written": _bundle(b"", _MORE, registration={}),
    "the Secret with the CA": _secret(_STORED, **_APART),
    "that Secret is missing": _secret(None, **_APART),
    "that Secret is cut off": _secret({**_STORED, "ca.crt": _OURS.cert_pem[:100]}, **_APART),
    "that Secret is somebody else's": _secret({"ca.crt": b"hello", "ca.key": b""}, **_APART),
    "that Secret is not registered": _secret({"ca.crt": _OTHER.cert_pem, "ca.key": _OTHER.key_pem}, **_APART),
    "that Secret is overdue": _secret(_STORED, 250, **_APART),
    "that Secret may not be read": _secret(FORBIDDEN, **_APART),
    "that Secret is not used": _secret(None),
    "the Secret with the certificate": _leaf(_PAIR, 1, **_APART),
    "that certificate is overdue": _leaf(_PAIR, 4, **_APART),
    "that certificate is missing": _leaf(None, **_APART),
    "that certificate is empty": _leaf({}, **_APART),
    "that certificate is damaged": _leaf({**_PAIR, "tls.key": b""}, **_APART),
    "that certificate may not be read": _leaf(FORBIDDEN, **_APART),
    "that certificate is not used": _leaf(None),
}

# Nobody ready is a problem, some a warning; one of the processes holds the Lease and renews it.

_WRITING = _settings(cluster=_CLOUD, registration={"apply": True})


def _pod(name: str, image: str = "cks:1", phase: str = "Running") -> Json:
    return {"metadata": {"name": name}, "spec": {"containers": [{"image": image}]}, "status": {"phase": phase}}


def _replicas(ready: int, *pods: Json) -> Case:
    deployment = {"metadata": {"name": "cks"}, "spec": {"replicas": 2}, "status": {"readyReplicas": ready}}
    return processes.check_replicas([deployment], pods, _WRITING)


def _lease(*pods: Json, holder: str = "cks-a", ago: float = 3) -> Case:
    renewed = (_NOW - timedelta(seconds=ago)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    lease = {"spec": {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15}}
    return processes.check_lease(lease, pods, _WRITING, _NOW)


_REPLICAS: dict[str, Case] = {
    "all are ready": _replicas(2),
    "some are ready": _replicas(1),
    "none is ready": _replicas(0),
    "several versions": _replicas(2, _pod("a"), _pod("b", "cks:2"), _pod("c", "cks:3", "Succeeded")),
    "no Deployment": processes.check_replicas([], [], _WRITING),
    "no Deployment, but a URL": processes.check_replicas(
        [], [], _settings(registration={"url": "https://127.0.0.1:9443"})
    ),
    "no right": processes.check_replicas(FORBIDDEN, FORBIDDEN, _WRITING),
    "a Lease": _lease(_pod("cks-a")),
    "a Lease of a process": _lease(_pod("cks-a"), holder="cks-a_7"),
    "a Lease outside": _lease(holder="host"),
    "a Lease of somebody else": _lease(_pod("cks-ab"), _pod("cks-c")),
    "a Lease that is overdue": _lease(ago=100),
    "a Lease that is free": _lease(holder=""),
    "no Lease": processes.check_lease(None, [], _WRITING, _NOW),
    "no Lease of manage": processes.check_lease(None, [], _settings(cluster=_CLOUD, manage={"apart": True}), _NOW),
    "no Lease, and nothing to write": processes.check_lease(None, [], _settings(), _NOW),
    "a Lease that may not be read": processes.check_lease(FORBIDDEN, [], _WRITING, _NOW),
}

# Each difference of what is registered is named, with who wrote last where Kubernetes knows it.


def _wanted() -> Json:
    chosen = _settings(topology={"action": "off"}, sunk={"action": "off"})
    return next(dict(one) for one in registered(chosen, b"", rules.build(chosen)) if one["kind"] == _VALIDATING)


def _registration(
    change: Callable[[Json, Json], object] | Any, wanted: Any = ..., *, in_files: bool = False, **registration: Any
) -> Case:
    """change: of the whole configuration and of its first entry, as the API server has them; or all that is there."""
    found: Any = change
    if callable(change):
        found = copy.deepcopy(_wanted())
        found["metadata"] |= {"managedFields": [{"manager": "cks-admission", "time": "2026-03-01T12:00:00Z"}]}
        for entry in found["webhooks"]:
            entry["clientConfig"]["caBundle"] = "Q0E="
        change(found, found["webhooks"][0])
    chosen = _settings(registration=registration).registration
    return configurations.check_registration(
        _VALIDATING, _wanted() if wanted is ... else wanted, found, chosen, in_files=in_files
    )


def _cloud(_: Json, entry: Json) -> None:
    added = {"key": "control-plane", "operator": "NotIn", "values": ["true"]}
    entry["namespaceSelector"]["matchExpressions"].append(added)


def _softened(found: Json, entry: Json) -> None:
    entry["failurePolicy"] = "Ignore"
    found["metadata"]["managedFields"].append({"manager": "kubectl-edit", "time": "2026-03-01T13:00:00Z"})


def _narrowed(_: Json, entry: Json) -> None:
    entry["matchConditions"][0]["expression"] = "true"


_MARK = {"annotations": {"cks-admission.dev/unregister": "true"}}
_FOREIGN = {"name": "mine.example.org", "clientConfig": {"url": "https://example.org"}}
_UNKNOWN = Unread("Namespaces could not be read")
_REGISTRATIONS: dict[str, Case] = {
    "fine": _registration(lambda *_: None),
    "kept": _registration(_cloud, kept=[{"key": "control-plane", "values": ["true"]}]),
    "not kept": _registration(_cloud),
    "objectSelector": _registration(lambda _, one: one.update(objectSelector={"matchLabels": {"a": "b"}}), apply=True),
    "failurePolicy, and who did it": _registration(_softened, apply=True),
    "an entry is missing": _registration(lambda found, one: found["webhooks"].remove(one), apply=True),
    "an entry is left over": _registration(
        lambda found, one: found["webhooks"].append({**one, "name": "old.cks-admission.dev"}), apply=True
    ),
    "another Service": _registration(lambda _, one: one["clientConfig"]["service"].update(name="other"), apply=True),
    "what only the service knows": _registration(_narrowed),
    "the same, if it writes": _registration(_narrowed, apply=True),
    "absent, in files": _registration(None, in_files=True),
    "an entry of others": _registration(lambda found, _: found["webhooks"].append(_FOREIGN)),
    "the mark of unregistering": _registration(lambda found, _: found["metadata"].update(_MARK)),
    "no rule needs it": _registration(lambda *_: None, None),
    "neither there nor needed": _registration(None, None),
    "missing": _registration(None, apply=True),
    "no right": _registration(FORBIDDEN),
    "unknown what is wanted": _registration(lambda *_: None, _UNKNOWN),
    "missing, and unknown what is wanted": _registration(None, _UNKNOWN),
}

# Whom an outage would reach: by what fails closed, where selectors and conditions do not keep it away.

_ALL: Json = {
    "apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "resources": ["*/*"], "scope": "*",
}  # fmt: skip
_CONDITION = [{"name": "a", "expression": "true"}]


def _not_in(*names: str) -> Json:
    requirement = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(names)}
    return {"namespaceSelector": {"matchExpressions": [requirement]}}


_NOT_SYSTEM = _not_in("cloud", "kube-system")
_TEAM = {"namespaceSelector": {"matchLabels": {"team": "ml"}}}


def _closed(**fields: Any) -> Json:
    return {"name": "labels.cks-admission.dev", "failurePolicy": "Fail", "rules": [_ALL], "timeoutSeconds": 5, **fields}


def _scope(others: Any = (), namespaces: Any = FORBIDDEN, **fields: Any) -> Case:
    return configurations.check_scope({_VALIDATING: {"webhooks": [_closed(**fields)]}}, others, namespaces, "cloud")


def _others(**fields: Any) -> Case:
    entry = {"name": "x.example.org", "rules": [_ALL], "clientConfig": {"service": {"namespace": "a", "name": "b"}}}
    guard = {"kind": _VALIDATING, "metadata": {"name": "guard"}, "webhooks": [{**entry, **fields}]}
    return _scope([guard], **_NOT_SYSTEM)


_NEVER = policy("never", "false", rule='{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*/*"]}')


def _daemon_set(namespace: str) -> Component:
    spec = {"hostNetwork": True, "containers": [{"name": "main"}]}
    workload = {"metadata": {"name": "agent", "namespace": namespace}, "spec": {"template": {"spec": spec}}}
    return component("DaemonSet", workload)


def _outage(components: Any = (), **sections: Any) -> Case:
    """What is told of an installation with a policy for everything."""
    chosen = _settings(**sections)
    ruleset = rules.build(chosen, (), rules.of_policies(chosen, policyfiles.read([("never.yaml", _NEVER)])))
    own: Any = {str(each["kind"]): each for each in registered(chosen, b"", ruleset)}
    return configurations.check_outage(own, components, FORBIDDEN, safety(chosen))


_CALICO = [_daemon_set("calico-system"), _daemon_set("calico-system")]
_SCOPES: dict[str, Case] = {
    "excluded": _scope(**_NOT_SYSTEM),
    "narrowed": _scope(**_not_in("cloud"), matchConditions=_CONDITION),
    "fails open": _scope(failurePolicy="Ignore"),
    "the own Namespace": _scope(matchConditions=_CONDITION),
    "the system": _scope(**_not_in("cloud")),
    "by the labels of Namespaces": _scope((), {"cloud": {"team": "ml"}, "kube-system": {}}, **_TEAM),
    "by labels that are not known": _scope(**_TEAM),
    "a long wait": _scope(**_NOT_SYSTEM, timeoutSeconds=30),
    "others' that could stop the cluster": _others(),
    "others' that fail open": _others(failurePolicy="Ignore"),
    "others' that are not in kube-system": _others(**_NOT_SYSTEM),
    "others' with conditions": _others(matchConditions=_CONDITION),
    "others' for some resources": _others(rules=[{**_ALL, "resources": ["pods"]}]),
    "others' for no Namespace": _others(rules=[{**_ALL, "scope": "Cluster"}]),
    "what the service registers lets a cluster come up": _outage(
        [_daemon_set("kube-system"), _daemon_set("cks-admission")]
    ),
    "components in other Namespaces": _outage(_CALICO),
    "components in Namespaces of the settings": _outage(_CALICO, safety={"namespaces": ["calico-system"]}),
    "components that may not be read": _outage(FORBIDDEN),
    "an entry that keeps a cluster down": configurations.check_outage(
        {_VALIDATING: {"webhooks": [_closed(**_NOT_SYSTEM)]}}, (), FORBIDDEN, safety(_settings())
    ),
}

# Only those webhooks of others count that may change what the service changes, and only if it is not asked again.


def _rule(group: str, *resources: str, version: str = "v1", operations: tuple[str, ...] = ("CREATE",)) -> Json:
    return {
        "apiGroups": [group], "apiVersions": [version], "operations": [*operations], "resources": [*resources],
        "scope": "*",
    }  # fmt: skip


def _beside(name: str, rule: Json, kind: str = _MUTATING, reinvocation: str = "IfNeeded") -> Case:
    other = {"kind": kind, "metadata": {"name": name}, "webhooks": [{"name": "x.example.org", "rules": [rule]}]}
    workloads = _rule("apps", "deployments", "statefulsets", version="*", operations=("CREATE", "UPDATE"))
    own = [
        {"name": f"{name}.cks-admission.dev", "rules": [rule], "reinvocationPolicy": reinvocation}
        for name, rule in (("pods", _rule("", "pods")), ("workloads", workloads))
    ]
    return configurations.check_others({"kind": _MUTATING, "webhooks": own}, [other], "cks-admission")


_BESIDE: dict[str, Case] = {
    "another resource": _beside("z", _rule("", "services")),
    "another operation": _beside("z", _rule("", "pods", operations=("DELETE",))),
    "a subresource": _beside("z", _rule("", "pods/exec")),
    "nothing is changed": _beside("z", _rule("", "pods"), _VALIDATING),
    "before": _beside("a", _rule("*", "*")),
    "after, and asked again": _beside("istio", _rule("", "pods")),
    "after, and not asked again": _beside("istio", _rule("", "pods"), reinvocation="Never"),
    "no right": configurations.check_others({}, FORBIDDEN, "cks-admission"),
}


def _roles() -> rbac.Rights | None:
    """Roles that let subjects act as others, everywhere or in a namespace, and one that does not."""
    roles = {"all": ("*", "*"), "speak": ("users", "impersonate"), "read": ("pods", "list"), "run": ("pods", "create")}
    bound: tuple[tuple[str, str, Json], ...] = (
        ("all", "", {"kind": "Group", "name": "system:masters"}),
        ("all", "", {"kind": "Group", "name": "ops"}),
        ("speak", "", {"kind": "User", "name": "carol"}),
        ("read", "", {"kind": "User", "name": "dora"}),
        ("run", "", {"kind": "ServiceAccount", "name": "c", "namespace": "kube-system"}),
        ("run", "org", {"kind": "ServiceAccount", "name": "ci", "namespace": "ci"}),
        ("run", "team", {"kind": "User", "name": "eve"}),
    )
    objects: list[Json] = [
        *(
            {
                "kind": "ClusterRole",
                "metadata": {"name": name},
                "rules": [{"apiGroups": ["*"], "resources": [resource], "verbs": [verb]}],
            }
            for name, (resource, verb) in roles.items()
        ),
        *(
            {
                "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
                "metadata": {"name": str(index), "namespace": namespace},
                "roleRef": {"kind": "ClusterRole", "name": role},
                "subjects": [subject],
            }
            for index, (role, namespace, subject) in enumerate(bound)
        ),
    ]
    return rbac.read(
        Document(value={"apiVersion": rbac.API_VERSION, **one}, name="roles", places=lambda _: (1, 1))
        for one in objects
    )


_WRITERS: dict[str, Case] = {
    "a policy and definitions": configurations.check_writers(
        [
            LabelWriter("MutatingAdmissionPolicy", "a", "reserved", "its expressions name reserved labels: x"),
            *(LabelWriter("CustomResourceDefinition", name, "possible", "its webhook may") for name in ("c", "d")),
        ],
        _settings(),
    ),
    "none": configurations.check_writers([], _settings()),
    "the guard is off": configurations.check_writers([], _settings(labels={"action": "off"})),
    "no right": configurations.check_writers(FORBIDDEN, _settings()),
    "who may act as exempt": configurations.check_actors(
        _roles(), {"org": {CONTROL_PLANE_LABEL: CONTROL_PLANE}}, _settings()
    ),
    "nobody may": configurations.check_actors(rbac.Rights((), ()), {}, _settings()),
    "roles may not be read": configurations.check_actors(FORBIDDEN, {}, _settings()),
}

# Somebody opens gates, nobody waits for long, and the policy that limits the placer's account has no gap.

_FENCE: dict[str, Any] = {
    processes.POLICY: {"spec": {"failurePolicy": "Fail"}},
    processes.BINDING: {"spec": {"policyName": "opener", "validationActions": ["Deny"]}},
}


def _placer(absence: Any = "", gated: Any = (), **fence: Any) -> Case:
    """What is not well, or all of it if all is well."""
    chosen = _settings(cluster={**_CLOUD, "inCluster": True}, place={"apart": True, "lease": "opener"})
    found = list(processes.check_placer(chosen, PlacerState(absence, gated, _FENCE | fence), _NOW))
    return [one for one in found if one.level != "ok"] or found


def _bound(policy: str, action: str) -> Json:
    return {processes.BINDING: {"spec": {"policyName": policy, "validationActions": [action]}}}


_LATE = [GatedPod("team", f"p-{number}", "", 0, _NOW - timedelta(seconds=1000)) for number in range(4)]
_PLACERS: dict[str, Case] = {
    "fine": _placer(),
    "nobody leads": _placer("nobody holds the Lease cloud/opener: gangs wait; look at the Pods of the placer"),
    "Pods that wait for long": _placer(
        gated=[*_LATE, GatedPod("team", "new", "", 0, _NOW - timedelta(seconds=10)), GatedPod("team", "odd", "", 0)]
    ),
    "no policy": _placer(**{processes.POLICY: None}),
    "a policy that fails open": _placer(**{processes.POLICY: {"spec": {"failurePolicy": "Ignore"}}}),
    "no binding": _placer(**{processes.BINDING: None}),
    "a binding of another policy": _placer(**_bound("x", "Deny")),
    "a binding that only audits": _placer(**_bound("opener", "Audit")),
    "no rights": _placer(FORBIDDEN, FORBIDDEN, **dict.fromkeys(_FENCE, FORBIDDEN)),
}

# Nodes with accelerators that lack labels are named; topologies of the settings are meant to be used.

_REGION, _ZONE, _RACK = "topology.kubernetes.io/region", "topology.kubernetes.io/zone", "example.org/rack"
_PLACE = {_REGION: "us", _ZONE: "us-1"}


def _machine(name: str, labels: dict[str, str], total: int = 8) -> Machine:
    return Machine(Node(name, labels), total)


def _topology(*machines: Machine, own: Any = None, **topology: Any) -> Case:
    chosen = _settings(topology=topology)
    return checks.check_topology(chosen, rules.topologies(chosen), own or TopologyObjects(), machines)


def _scheduling(annotation: str, workload: str = "on") -> Case:
    chosen = _settings(topology={"workloadScheduling": workload}, manage={"apart": True})
    own = {"metadata": {"annotations": {"cks-admission.dev/workload-scheduling": annotation}}}
    return checks.check_scheduling(chosen, own)


_TOPOLOGIES: dict[str, Case] = {
    "all labels": _topology(_machine("a", _PLACE), _machine("b", _PLACE), _machine("cpu", {_REGION: "us"}, 0)),
    "labels are lacking": _topology(
        _machine("a", _PLACE), *(_machine(f"gpu-{number}", {_REGION: "us"}) for number in range(5))
    ),
    "a topology of the settings": _topology(
        _machine("a", _PLACE), topologies=[{"name": "racks", "levels": [_RACK, "kubernetes.io/hostname"]}]
    ),
    "no label, no accelerator": _topology(_machine("a", {}, 0)),
    "no label": _topology(_machine("a", {})),
    "no Node": _topology(),
    "an object that cannot be used": _topology(own=TopologyObjects(problems=("KAI Topology broken cannot be used",))),
    "Kubernetes schedules": _scheduling('{"form":"Job"}'),
    "Kubernetes does not schedule": _scheduling('{"reason":"gates are off"}'),
    "nobody has found out": _scheduling(""),
    "nobody wants to know": _scheduling("", "off"),
}

# A missing right is told with what it is for, and with the rule that grants it.

_USER = "system:serviceaccount:cloud:cks"
NODE_RIGHTS = [Right(verb, "", "nodes", reason="rules look at Nodes") for verb in ("list", "watch")]
JOB_RIGHT = Right("list", "batch", "jobs", reason="deletions are told", vital=False)
_SECRET_RIGHT = Right("get", "", "secrets", name="ca", namespace="cloud", reason="replicas share the CA")


def _rights(missing: str = "", *, own: bool = True, answer: Any = False) -> Case:
    rights = [*NODE_RIGHTS, _SECRET_RIGHT, JOB_RIGHT]
    return processes.check_rights(
        {right: answer if right.resource == missing else True for right in rights}, _USER, own=own
    )


_RIGHTS: dict[str, Case] = {
    "all": _rights(),
    "all of somebody else": _rights(own=False),
    "verbs of a resource together": _rights("nodes"),
    "one object": _rights("secrets"),
    "less is told": _rights("jobs"),
    "of somebody else": _rights("secrets", own=False),
    "who may not ask": _rights("secrets", answer=FORBIDDEN),
}
CASES = {
    "probe": _PROBES,
    "address": _ADDRESSES,
    "API server": _VERSIONS,
    "certificate": _CERTIFICATES,
    "replicas": _REPLICAS,
    "registration": _REGISTRATIONS,
    "scope": _SCOPES,
    "other webhooks": _BESIDE,
    "label writers": _WRITERS,
    "placer": _PLACERS,
    "topology": _TOPOLOGIES,
    "rights": _RIGHTS,
}


@pytest.mark.parametrize(("check", "case"), [(check, case) for check, cases in CASES.items() for case in cases])
def test_what_is_said(check: str, case: str) -> None:
    """Each finding has its level, its place, what was found and what to do; nothing else is said."""
    said = _FINDINGS[check][case]
    findings = [said] if isinstance(said, str) else said
    assert lines(CASES[check][case]) == [Template(finding).substitute(_TEXTS) for finding in findings]


def test_every_case_has_its_findings() -> None:
    """The file has no other cases."""
    known = {check: set(cases) for check, cases in CASES.items()}
    assert {check: set(cases) for check, cases in _FINDINGS.items()} == known


def test_every_ready_replica_is_an_address() -> None:
    """The name that is called comes first, then each replica by the port of the slice; or there is the URL alone."""
    chosen = _settings(cluster=_CLOUD, registration={"service": "svc"})
    outside = _settings(registration={"url": "https://[fd00::1]:9443/"})

    assert connection.targets(chosen, SERVICE, [SLICE]) == [
        Endpoint(_NAME, host, port) for host, port in ((_NAME, 443), ("10.0.0.1", 9443), ("fd00::3", 9443))
    ]
    assert connection.targets(chosen, FORBIDDEN, [SLICE]) == [Endpoint(_NAME, _NAME, 443)]
    assert [each.where for each in connection.targets(outside, None, [])] == ["[fd00::1]:9443"]
    assert connection.dialled_by({"service": {"name": "svc", "namespace": "cloud", "path": "/x"}}) == _NAME
    assert connection.dialled_by({"url": "https://hooks.example.org:9443/x"}) == "hooks.example.org"


@pytest.mark.parametrize(
    ("user", "action", "refused"),
    [
        pytest.param(UserInfo("alice"), "deny", True, id="anybody"),
        pytest.param(UserInfo("root", groups=("system:masters",)), "deny", False, id="system:masters"),
        pytest.param(UserInfo("system:serviceaccount:org:x"), "deny", False, id="control plane"),
        pytest.param(UserInfo("alice"), "warn", False, id="only warned"),
    ],
)
def test_whom_the_rules_would_refuse(user: UserInfo, action: str, refused: bool) -> None:  # noqa: FBT001 - a column
    """The service's own rules say what was to be expected of the requester; only its own refusal is an answer."""
    ruleset = rules.build(_settings(labels={"action": action}))
    labels = {"org": {"ns.coreweave.cloud/org": "control-plane"}}
    denied = Probe("x", 403, _DENIED.format("labels.cks-admission.dev"))

    assert connection.is_refused(ruleset, "default", user, labels, _NOW.date()) is refused
    assert [connection.is_answered(each) for each in (None, FORBIDDEN, Probe("x", 201), denied)] == [
        *(False, False, False, True)
    ]


def test_the_pods_are_those_of_the_service() -> None:
    """The Service's selector says which, without one the label of the chart; with manage its Pods count, too."""
    service: Any = {"spec": {"selector": {"a": "b", "c": "d"}}}
    apart = _settings(manage={"apart": True, "pods": "app=cks,app.kubernetes.io/component=webhook,release=a"})

    assert [processes.selector(each, _settings()) for each in (service, None, FORBIDDEN)] == [
        "a=b,c=d", "app.kubernetes.io/name=cks-admission", "app.kubernetes.io/name=cks-admission",
    ]  # fmt: skip
    assert processes.selector(service, apart) == "app=cks,release=a"


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        ({}, True),
        ({"place": {"apart": False}}, True),
        ({"place": {"apart": False}, "cluster": {}}, False),
        ({"topology": {"action": "off"}}, False),
        ({"topology": {"placement": [{"ways": ["affinity"]}]}}, False),
        ({"topology": {"placement": [{"topologies": ["a"], "ways": ["affinity"]}]}}, True),
        ({"topology": {"placement": [{"ways": ["affinity"], **_TEAM}]}}, True),
    ],
)
def test_who_is_to_open_gates(sections: dict[str, Any], expected: bool) -> None:  # noqa: FBT001 - a parameter
    """Somebody is, unless topologies are off, no Pod may get a gate, or there is no cluster."""
    found = _settings(**{"cluster": {"inCluster": True}, "place": {"apart": True}, **sections})

    assert processes.opens_gates(found) is expected
    assert roles.places(found) is (expected and not found.place.apart)


def test_what_is_not_served_needs_no_right() -> None:
    """Groups that the API server does not have are left out; all are asked for where these are not known."""
    assert processes.rights_to_check([*NODE_RIGHTS, JOB_RIGHT], {"apps"}) == NODE_RIGHTS
    assert processes.rights_to_check([*NODE_RIGHTS, JOB_RIGHT], FORBIDDEN) == [*NODE_RIGHTS, JOB_RIGHT]


_SETTINGS = Settings.model_validate(
    {"packs": {"sunk": "off", "interruptable-qos": {"mode": "enforce", "policies": {"interruptable-drain": "warn"}}}}
)


async def test_packs_are_shown_with_whose_place_others_take() -> None:
    """Each pack has its mode and those of single policies; a policy of the cluster takes the place of its namesake."""
    desired = await make(_SETTINGS, {}, {}, {"node-selector": [], "other": []}, date(2026, 3, 1))

    told = [(each.level, each.where, each.found) for each in check_policies(desired, {}, _SETTINGS)]
    assert told[1:] == [
        ("ok", "pack interruptable-qos", "enforce, interruptable-drain warn"),
        ("ok", "pack scheduling-safety", "warn"),
        ("ok", "pack sunk", "off"),
        ("ok", "shipped policy node-selector", "not used: another policy has this name"),
    ]
