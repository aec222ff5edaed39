"""The shipped packs on a real API server: every case of every suite, sent as a dry run by the case's user.

The answers are those of this project's engine for kube-apiserver alone, which judges no templates of workloads.

All packs are in force at once, on their own control plane. It has only etcd and the API server, so that no controller
changes the objects of the cases, and an audit log, which holds the audit annotations.
"""

from __future__ import annotations

import copy
import itertools
import json
import re
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from support.policies import packs

from cluster import components, crds, jsonlog, manifests, toolchain
from cluster.apicalls import MERGE_PATCH, Answer, Caller
from cluster.controlplane import ControlPlane
from cluster.programs import CONTROL_PLANE
from policies.suite import Case, Expectation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.policies.packs import PackPolicy

Json = dict[str, Any]
ASKED = [(policy, case) for policy, case in packs.cases() if case.operation in ("CREATE", "UPDATE")]

# Exempt in all packs: it makes the objects that an update changes, whatever is in force.
SETUP = "system:serviceaccount:kube-system:setup"
_DENIAL = re.compile(r"ValidatingAdmissionPolicy '([^']*)' with binding '[^']*' denied request: (.*)", re.DOTALL)
_WARNING = re.compile(
    r"Validation failed for ValidatingAdmissionPolicy '([^']*)' with binding '[^']*': (.*)", re.DOTALL
)
_FAILURE = "validation.policy.admission.k8s.io/validation_failure"
_AUDIT_POLICY = (
    '{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],'
    ' "rules": [{"level": "Metadata"}]}'
)


class AuditedServer(ControlPlane):
    """etcd and the API server alone, with an audit log; Pods need no service account and stay as they are."""

    def _start(self) -> None:
        layout = self._prepare()
        policy = self.directory / "audit.json"
        policy.write_text(_AUDIT_POLICY, encoding="utf-8")
        self._launch("etcd", components.etcd(layout))
        command = [
            *components.kube_apiserver(layout),
            f"--audit-policy-file={policy}",
            "--audit-log-mode=blocking",
            "--disable-admission-plugins=DefaultTolerationSeconds,ServiceAccount",
        ]
        self._await_answer(self._launch("kube-apiserver", command), f"{self.server}/readyz")


@dataclass
class Proof:
    """What the API server said of each case."""

    found: dict[tuple[str, str], Answer] = field(default_factory=dict)
    audited: dict[str, Json] = field(default_factory=dict)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """The API server with everything in force."""
    with ExitStack() as stack:
        server = stack.enter_context(AuditedServer(toolchain.ensure(CONTROL_PLANE)))
        running = Cluster(server, stack.enter_context(Caller(server)))
        running.prepare()
        yield running


@pytest.fixture(scope="module")
def proof(cluster: Cluster) -> Proof:
    """All cases asked, those with the same parameters together."""
    found = Proof()
    by_params = sorted(ASKED, key=lambda asked: json.dumps(asked[1].params))
    for _, together in itertools.groupby(by_params, key=lambda asked: json.dumps(asked[1].params)):
        group = list(together)
        cluster.set_parameters(group[0][1])
        for policy, case in group:
            found.found[policy.name, case.name] = cluster.ask(case)
    for event in jsonlog.entries(cluster.server.audit_log):
        found.audited[event["auditID"]] = event.get("annotations", {})
    return found


@pytest.mark.parametrize(("policy", "case"), ASKED, ids=[f"{policy.name}: {case.name}" for policy, case in ASKED])
def test_a_case_is_judged_as_the_engine_says(proof: Proof, policy: PackPolicy, case: Case) -> None:
    """Verdict, message, warnings and audit are those that the engine gives for kube-apiserver, to the letter."""
    answer = proof.found[policy.name, case.name]
    names = {each.policy.name for each in policy.compiled}
    assert answer.code in {200, 201, 403}, answer.body
    native = _said(answer, proof.audited[answer.audit_id], names)
    # The API server shows the first refusal only, and does not promise which policy comes first, even of other packs.
    expected = packs.alone(policy, case)
    shown = native.messages if set(native.messages) <= set(expected.messages) else expected.messages[:1]
    assert native == Expectation(
        verdict=expected.verdict,
        messages=shown,
        warnings=tuple(sorted(expected.warnings)),
        audit=tuple(sorted(expected.audit)),
    )


def test_there_is_enough_to_be_told_apart() -> None:
    """The suites hold more than 100 cases; kube-apiserver alone refuses, warns and is silent."""
    outcomes = [packs.alone(policy, case) for policy, case in ASKED]
    denied = sum(each.verdict == "denied" for each in outcomes)
    warned = sum(bool(each.warnings) for each in outcomes)
    silent = sum(each == Expectation(verdict="allowed") for each in outcomes)
    assert (len(outcomes) > 100, denied > 20, warned > 1, silent > 40) == (True,) * 4


class Cluster:
    """The API server with the packs: Namespaces, kinds and policies as the cases need them."""

    def __init__(self, server: AuditedServer, caller: Caller) -> None:
        """Prepare nothing yet."""
        self.server, self._caller = server, caller
        self._namespaces: dict[str, str] = {"": "", "kube-system": "kube-system"}
        self._plurals: dict[tuple[str, str], str] = {}
        self._count = itertools.count()
        self._node_uid = ""

    def prepare(self) -> None:
        """Make everything that the cases have in common, the policies last."""
        caller = self._caller
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated"}
        binding = manifests.cluster_role_binding("everybody", "cluster-admin", subject)
        caller.make("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
        self._node_uid = caller.make("/api/v1/nodes", manifests.node("gpu-1"))["metadata"]["uid"]
        asked = [each for _, case in ASKED for each in (case.object, case.old_object) if each]
        crds.install(self.server, *crds.kinds_of(asked))
        for _, case in ASKED:
            self._namespace(case)
        for policy in packs.shipped():
            for document in policy.documents:
                caller.make(_collection(document), document)
        for document in _canary():
            caller.make(_collection(document), document)
        self._await_revision("0")

    def set_parameters(self, case: Case) -> None:
        """Give all ConfigMaps the data that a case wants, and wait until that is what policies see."""
        for policy in packs.shipped():
            for config_map in packs.parameters(policy, case):
                self._replace(config_map)
        revision = str(next(self._count))
        self._replace(_canary_parameters(revision))
        self._await_revision(revision)

    def ask(self, case: Case) -> Answer:
        """Send the request of a case as a dry run."""
        user, groups = case.user.name, case.user.groups
        obj = self.placed(case, case.object)
        path = _collection(obj)
        if case.operation == "CREATE":
            return self._caller.send("POST", f"{path}?dryRun=All", obj, user=user, groups=groups)
        old = self.placed(case, case.old_object)
        name = f"{old['metadata']['name']}-{next(self._count)}"
        old["metadata"]["name"] = obj["metadata"]["name"] = name
        self._caller.make(path, old, user=SETUP)
        patch = _difference(old, obj)
        return self._caller.send(
            "PATCH", f"{path}/{name}?dryRun=All", patch, user=user, groups=groups, content_type=MERGE_PATCH
        )

    def placed(self, case: Case, obj: Any) -> Json:
        """An object where the case wants it, in the Namespace that plays that part."""
        found: Json = copy.deepcopy(dict(obj))
        if namespace := self._namespace(case):
            found["metadata"]["namespace"] = namespace
        for owner in found["metadata"].get("ownerReferences") or ():
            if owner["kind"] == "Node":
                owner["uid"] = self._node_uid
        return found

    def _namespace(self, case: Case) -> str:
        """The Namespace of a case: those of one name and other labels are several here."""
        if case.namespace.name in self._namespaces:
            return self._namespaces[case.namespace.name]
        key = json.dumps([case.namespace.name, dict(case.namespace.labels)], sort_keys=True)
        if key not in self._namespaces:
            name = f"{case.namespace.name}-{len(self._namespaces)}"
            self._caller.make("/api/v1/namespaces", manifests.namespace(name, case.namespace.labels))
            self._namespaces[key] = name
        return self._namespaces[key]

    def _replace(self, config_map: Json) -> None:
        path = f"{_collection(config_map)}/{config_map['metadata']['name']}"
        answer = self._caller.send("PUT", path, config_map)
        assert answer.code == 200, answer

    def _await_revision(self, revision: str) -> None:
        """Wait for the policy that was written last to warn with what was written last."""
        asked = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "asked", "namespace": "default"}}

        self.server.wait_until(
            f"revision {revision} of the parameters",
            lambda: self._caller.send("POST", "/api/v1/namespaces/default/configmaps?dryRun=All", asked),
            lambda answer: any(text.endswith(f": revision {revision}") for text in answer.warnings),
        )


def _said(answer: Answer, annotations: Json, names: set[str]) -> Expectation:
    """What policies of these names said."""
    denial = _DENIAL.search(answer.body.get("message", "")) if answer.code == 403 else None
    warnings = [found.groups() for text in answer.warnings if (found := _WARNING.match(text))]
    failures = json.loads(annotations.get(_FAILURE, "[]"))
    return Expectation(
        verdict="denied" if answer.code == 403 else "allowed",
        messages=() if denial is None or denial[1] not in names else (denial[2],),
        warnings=tuple(sorted(text for name, text in warnings if name in names)),
        audit=tuple(sorted(each["message"] for each in failures if each["policy"] in names)),
    )


def _difference(old: Any, new: Any) -> Json:
    """The merge patch that makes one object of another."""
    patch: Json = {key: None for key in old if key not in new}
    for key, value in new.items():
        if isinstance(value, dict) and isinstance(old.get(key), dict):
            if inner := _difference(old[key], value):
                patch[key] = inner
        elif key not in old or old[key] != value:
            patch[key] = value
    return patch


def _collection(obj: Json) -> str:
    """The path of all objects of an object's kind in its namespace."""
    group, _, version = obj["apiVersion"].rpartition("/")
    namespace = obj["metadata"].get("namespace")
    kind = obj["kind"].lower()
    plural = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"
    return "/".join(
        [
            f"/apis/{group}/{version}" if group else f"/api/{version}",
            *([f"namespaces/{namespace}"] if namespace else []),
            plural,
        ]
    )


def _canary() -> Iterator[Json]:
    """A policy that warns with its parameter: it is written last, so what it shows is in force with all before it."""
    yield _canary_parameters("0")
    yield from manifests.validating(
        "canary",
        manifests.rule("configmaps", operations=["CREATE"]),
        {"expression": "false", "messageExpression": "'revision ' + string(params.data.revision)"},
        action="Warn",
        binding={"paramRef": {"name": "canary", "namespace": "kube-system", "parameterNotFoundAction": "Allow"}},
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
    )


def _canary_parameters(revision: str) -> Json:
    metadata = {"name": "canary", "namespace": "kube-system"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"revision": revision}}
