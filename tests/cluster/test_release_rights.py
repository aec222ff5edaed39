"""The rights that the chart grants: the service needs each of them, and no others.

The tests make the service do everything that it ever does to a cluster, and read its requests from the API server's
audit log. A right that is missing shows there as a forbidden request; a right that no request uses is too much.
"""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import pytest
from support import packmodes

from cluster import crds, load, manifests
from cluster.polling import PATIENCE, NotYet, wait_for
from cluster.release import MANAGE, NAME, NAMESPACE, PLACER
from cluster.rights import Right, granted, used
from policies import nodepool
from policies.objects.workload import BUILT_IN

if TYPE_CHECKING:
    from cluster.controlplane import ControlPlane
    from cluster.release import Release

ACCOUNTS = (NAME, MANAGE)
_READS = ("get", "list", "watch")
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_CONFIGURATIONS = tuple(f"{_ADMISSION}/{kind}webhookconfigurations" for kind in ("mutating", "validating"))
_OWN = f"/api/v1/namespaces/{NAMESPACE}"
_LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_EMPTY: Mapping[str, Any] = {"metadata": {"name": "taken-over"}}
_LABELLED: Mapping[str, Any] = {"metadata": {"labels": {"foo.coreweave.cloud/bar": "true"}}}
TAKEN_OVER = [
    # secrets, the key of the CA among them
    ("GET", f"{_OWN}/secrets/{NAME}-ca", None),
    ("GET", f"{_OWN}/secrets/{NAME}-tls", None),
    ("GET", f"{_OWN}/secrets", None),
    ("GET", "/api/v1/secrets", None),
    ("POST", f"{_OWN}/secrets", _EMPTY),
    ("PATCH", f"{_OWN}/secrets/{NAME}-tls", _LABELLED),
    *(
        ("POST", f"{_OWN}/serviceaccounts/{account}/token", {"spec": {"expirationSeconds": 3600}})
        for account in (MANAGE, PLACER)
    ),
    # who writes, and what is registered
    ("GET", f"{_LEASES}/{NAME}", None),
    ("POST", _LEASES, _EMPTY),
    ("PATCH", f"{_LEASES}/{NAME}", _LABELLED),
    ("PATCH", f"{_LEASES}/{PLACER}", _LABELLED),
    *(("GET", path, None) for path in _CONFIGURATIONS),
    *(("POST", path, _EMPTY) for path in _CONFIGURATIONS),
    *(("PATCH", f"{path}/{NAME}", _LABELLED) for path in _CONFIGURATIONS),
    *(("DELETE", f"{path}/{NAME}", None) for path in _CONFIGURATIONS),
    ("POST", f"{_ADMISSION}/mutatingadmissionpolicies", _EMPTY),
    # what the labels steer, and what runs
    *((method, "/api/v1/nodes/host-1", _LABELLED) for method in ("PATCH", "PUT", "DELETE")),
    ("PATCH", "/api/v1/nodes/host-1/status", _LABELLED),
    ("PATCH", "/api/v1/namespaces/load", _LABELLED),
    ("POST", "/api/v1/namespaces", _EMPTY),
    ("POST", f"{_OWN}/pods", _EMPTY),
    ("PATCH", "/api/v1/namespaces/default/pods/main", _LABELLED),
    ("DELETE", f"{_ADMISSION}/validatingadmissionpolicies/{PLACER}", None),
    ("POST", "/api/v1/namespaces/kube-system/pods", _EMPTY),
    ("PATCH", f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{NAME}", _LABELLED),
    ("PATCH", f"{_OWN}/configmaps/{NAME}", _LABELLED),
    ("POST", f"{_OWN}/configmaps", _EMPTY),
    # more rights
    ("POST", f"{_RBAC}/clusterroles", _EMPTY),
    ("POST", f"{_RBAC}/clusterrolebindings", _EMPTY),
    ("PATCH", f"{_RBAC}/clusterroles/{NAME}", _LABELLED),
    ("POST", "/apis/certificates.k8s.io/v1/certificatesigningrequests", _EMPTY),
]
"""Requests that a replica's token must not be good for: method, path and body."""
OFF = {
    **{rule: {"action": "off"} for rule in ("labels", "tolerations", "sunk", "topology", "selectors")},
    "guard": {"namespaces": "off", "taints": "off"},
    "packs": dict(packmodes.OFF),
}
ASKS_AUTHORIZER = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: asks}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  matchConditions: [{name: asked, expression: "object.metadata.name == 'authorized'"}]
  validations:
  - {expression: "authorizer.group('').resource('pods').namespace('default').check('frobnicate').allowed()"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: asks}
spec: {policyName: asks, validationActions: [Deny]}
"""

QUEUED = """
apiVersion: batch/v1
kind: Job
metadata:
  name: queued
  namespace: default
  labels: {kueue.x-k8s.io/queue-name: team}
  annotations: {kai.scheduler/topology: coreweave, kai.scheduler/topology-required-placement: rack}
spec:
  template: {spec: {restartPolicy: Never, containers: [{name: main, image: example.test/main}]}}
"""


@pytest.fixture(scope="module", autouse=True)
def refused(audited: ControlPlane, installed: Release) -> list[str]:
    """Bring about whatever the service does to a cluster; return what it was forbidden.

    Not what comes of turning everything off: that takes rights away from Pods whose watches may end just then.
    """
    installed.install()
    _lose_what_is_shared(audited, installed)
    _name_topologies(audited)
    _ask_the_authorizer(audited, installed)
    _refuse_policies(audited, installed)
    _add_conditions(audited, installed)
    _use_an_unheard_of_namespace(audited, installed)
    forbidden = [line for account in (*ACCOUNTS, PLACER) for line in used(audited, NAMESPACE, account)[1]]
    _turn_everything_off(audited, installed)
    installed.wait_until_asked()
    return forbidden


def test_no_right_is_missing(refused: list[str]) -> None:
    """The API server refused nothing that the service asked of it."""
    assert refused == []


@pytest.mark.parametrize("account", ACCOUNTS)
def test_no_right_is_too_much(audited: ControlPlane, account: str) -> None:
    """Replicas and manage used every verb on every resource that the chart's roles give them.

    Replicas also create Events about policies that went over their time three times in a minute, which takes too long
    to bring about here, tests/webhook/test_heavy.py says when; and about what controllers were refused, which
    test_served_policies.py brings about.
    """
    seldom = {"nodes"} if account == MANAGE else set()
    uses, _ = used(audited, NAMESPACE, account)
    unused = {right for right in granted(audited, NAMESPACE, account) if not any(right.covers(use) for use in uses)}

    told = [(right.verb, right.resource) for right in sorted(unused)]
    assert [right for right in told if right[0] != "list" or right[1] not in seldom] == (
        2 * [("create", "events")] if account == NAME else []
    )


@pytest.mark.parametrize(("method", "path", "body"), TAKEN_OVER)
def test_who_takes_over_a_replica_gains_nothing(
    audited: ControlPlane, installed: Release, method: str, path: str, body: Mapping[str, Any] | None
) -> None:
    """With the token of a serving Pod, the API server refuses to show a secret and to change anything."""
    volume = installed.kubelet.ready()[0].root / "etc/cks-admission/serviceaccount"
    token = (volume / "token").read_text(encoding="utf-8")

    assert _status(audited, token, "GET", "/api/v1/namespaces?limit=1") == HTTPStatus.OK
    assert _status(audited, token, method, path, body) == HTTPStatus.FORBIDDEN


def test_a_replica_has_no_key_of_the_authority(installed: Release) -> None:
    """No file of a serving Pod holds the key of the CA, and its account writes but reviews of access and Events."""
    key = installed.secret()["ca.key"]
    (replica, *_) = installed.kubelet.ready()
    files = [path for path in replica.root.rglob("*") if path.is_file()]

    assert [path for path in files if key.strip() in path.read_bytes()] == []
    assert (replica.root / "etc/cks-admission/tls/tls.key").is_file()
    writes = {right for right in granted(installed.control_plane, NAMESPACE, NAME) if right.verb not in _READS}
    assert {(right.verb, right.resource) for right in writes} <= {
        ("create", "subjectaccessreviews"),
        ("create", "events"),
    }


def _status(audited: ControlPlane, token: str, method: str, path: str, body: Mapping[str, Any] | None = None) -> int:
    """The API server's answer to a request with a token; writes are dry runs."""
    context = ssl.create_default_context(cafile=str(audited.ca_file))
    query = "" if method == "GET" else "?dryRun=All"
    kinds = {"PATCH": "application/merge-patch+json"}
    headers = {"Authorization": f"Bearer {token}", "Content-Type": kinds.get(method, "application/json")}
    content = None if body is None else json.dumps(body).encode()
    url = f"{audited.server}{path}{query}"
    call = urllib.request.Request(url, content, headers, method=method)  # noqa: S310 - an address of our own
    try:
        with urllib.request.urlopen(call, context=context, timeout=PATIENCE) as answer:  # noqa: S310 - as above
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def _lose_what_is_shared(audited: ControlPlane, installed: Release) -> None:
    """The Secret and the Lease are made anew."""
    lost = (f"secret/{NAME}-ca", f"secret/{NAME}-tls", f"lease/{NAME}")
    audited.kubectl("delete", *lost, "-n", NAMESPACE, user="admin", check=True)
    made = (installed.holder, installed.secret, lambda: installed.secret(f"{NAME}-tls"))
    wait_for("the Lease and the Secrets", lambda: all(look() for look in made))


def _name_topologies(audited: ControlPlane) -> None:
    """A Topology object is deleted, and whoever may name it is looked for: objects of all kinds with templates.

    A Job of Kueue names one too, for which its ResourceFlavors are read. Grove's kind is followed under both names.
    """
    others = [row for row in BUILT_IN if row.templates and row.group not in ("", "apps", "batch")]
    kinds = [manifests.custom_resource(row.kind, row.group, "v1") for row in others]
    pools = [
        manifests.custom_resource(nodepool.KIND, group, v[0], scope="Cluster") for group, v in nodepool.VERSIONS.items()
    ]
    crds.install(audited, crds.KAI_TOPOLOGY, crds.KUEUE_TOPOLOGY, crds.GROVE_TOPOLOGY_BEFORE, *pools, *kinds)
    level = {"nodeLabel": "kubernetes.io/hostname"}
    topology = {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": "gone"}}

    def followed(*resources: tuple[str, str]) -> bool:
        wanted = [Right(verb, *resource) for verb in ("list", "watch") for resource in resources]
        for account in ACCOUNTS:
            uses, _ = used(audited, NAMESPACE, account)
            if missing := [right for right in wanted if not any(right.covers(use) for use in uses)]:
                raise NotYet(f"{account}: {missing}")
        return True

    before = ("kai.scheduler", "topologies"), ("kueue.x-k8s.io", "topologies"), ("grove.io", "clustertopologies")
    wait_for("three kinds of topologies to be followed", lambda: followed(*before))
    crds.remove(audited, crds.GROVE_TOPOLOGY_BEFORE)
    crds.install(audited, crds.GROVE_TOPOLOGY)
    wait_for("Grove's newer kind to be followed", lambda: followed(("grove.io", "clustertopologybindings")))

    def looked_for() -> bool:
        audited.objects.apply({**topology, "spec": {"levels": [level]}})
        audited.kubectl("delete", "topologies.kai.scheduler", "gone", check=True)
        audited.apply(QUEUED, "--dry-run=server", check=True)
        uses, _ = used(audited, NAMESPACE, NAME)
        lists = {right for right in granted(audited, NAMESPACE, NAME) if right.verb == "list"}
        # A service that is held up looks through as many kinds as there is time for.
        if missing := {right for right in lists if not any(right.covers(use) for use in uses)}:
            raise NotYet(str(missing))
        return True

    wait_for("all kinds of workloads to be looked through", looked_for)


def _ask_the_authorizer(audited: ControlPlane, installed: Release) -> None:
    installed.install(policies={"asks.yaml": ASKS_AUTHORIZER})

    def asked() -> bool:
        metadata = {"name": "authorized", "namespace": load.NAMESPACE}
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        audited.apply(manifest, "--dry-run=server")
        uses, _ = used(audited, NAMESPACE, NAME)
        return any(each.resource == "subjectaccessreviews" for each in uses)

    wait_for("a check of authorization", asked)


def _refuse_policies(audited: ControlPlane, installed: Release) -> None:
    """A ConfigMap with policies that are wrong is told so, in an annotation and an Event."""
    installed.install(policies={"wrong.yaml": ASKS_AUTHORIZER.replace("allowed()", "allowed")})

    def told() -> bool:
        uses, _ = used(audited, NAMESPACE, MANAGE)
        return Right("create", "", "events", namespace=NAMESPACE) in {use._replace(name="") for use in uses}

    wait_for("the Event", told)


def _add_conditions(audited: ControlPlane, installed: Release) -> None:
    """Somebody adds what applying leaves there, so that the configurations have to be replaced."""
    for kind in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration"):
        name = audited.get(kind, NAME)["webhooks"][0]["name"]
        condition = {"name": "never", "expression": "false"}
        patch = {"webhooks": [{"name": name, "matchConditions": [condition]}]}
        audited.kubectl("patch", kind, NAME, "-p", json.dumps(patch), user="admin", check=True)
    added: dict[str, dict[str, object]] = {
        "validatingadmissionpolicy": {"auditAnnotations": [{"key": "theirs", "valueExpression": "'x'"}]},
        "validatingadmissionpolicybinding": {"matchResources": {"objectSelector": {"matchLabels": {"a": "b"}}}},
    }
    for kind, fields in added.items():
        edit = json.dumps({"spec": fields})
        audited.kubectl("patch", kind, NAME, "--type=merge", "-p", edit, user="admin", check=True)
    installed.wait_until_asked()

    def replaced() -> bool:
        uses, _ = used(audited, NAMESPACE, MANAGE)
        return sum(use.verb == "update" and "admission" in use.group for use in uses) == 4

    wait_for("both configurations, the policy and its binding to be replaced", replaced)


def _use_an_unheard_of_namespace(audited: ControlPlane, installed: Release) -> None:
    """A review comes from a Namespace that the watch has not brought yet, so that it is asked for.

    It is sent here, for the API server's own comes too late by a millisecond most of the time.
    """
    labels = {"foo.coreweave.cloud/bar": "1"}
    request = {
        "uid": "0",
        "operation": "CREATE",
        "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "resource": {"group": "", "version": "v1", "resource": "configmaps"},
        "namespace": "unheard-of",
        "userInfo": {"username": "alice"},
        "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "labels": labels}},
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    context = ssl.create_default_context(cadata=installed.secret()["ca-bundle.crt"].decode())
    context.check_hostname = False  # the certificate is for the balancer
    replica = installed.kubelet.ready()[0]
    url = f"https://{replica.address}:{replica.ports[0]}/validate/labels"
    call = urllib.request.Request(url, json.dumps(review).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(call, context=context, timeout=PATIENCE) as answer:  # noqa: S310 - an address of our own
        assert not json.load(answer)["response"]["allowed"]
    asked = Right("get", "", "namespaces", "unheard-of", "unheard-of")
    wait_for("the Namespace to be asked for", lambda: asked in used(audited, NAMESPACE, NAME)[0])


def _turn_everything_off(audited: ControlPlane, installed: Release) -> None:
    """Configurations without an entry are removed, and made again where there are some."""
    installed.install(config=OFF, policies={"load.yaml": "# none"})

    def gone() -> bool:
        left = audited.kubectl("get", "validatingwebhookconfiguration,mutatingwebhookconfiguration", user="admin")
        return NAME not in left.stdout

    wait_for("the configurations to be removed", gone)
    installed.install()
