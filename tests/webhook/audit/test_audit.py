"""What an audit asks, and what it finds."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import AbstractContextManager
from datetime import date
from typing import Any

import msgspec
import pytest
import yaml
from msgspec.structs import replace
from support.packmodes import OFF

from policies.engine.facts import StaticFacts
from policies.engine.request import AdmissionRequest, GroupVersionResource, Owner
from policies.engine.rule import PolicyException, RuleSet
from policies.engine.safety import CONTROL_PLANE, CONTROL_PLANE_LABEL
from webhook.audit import audit
from webhook.audit.audit import Audit, as_sent, audit_rules, creation, reason
from webhook.audit.finding import (
    MOST,
    WHOLE,
    AuditError,
    Finding,
    Judged,
    Owners,
    Part,
    Record,
    Scope,
    Subject,
    Verdict,
    by_policy,
    count,
    count_policies,
    newest,
)
from webhook.configuration.settings import Settings
from webhook.limits import Limits, limited
from webhook.sources import policyfiles
from webhook.sources.policyset import EMPTY

_FACTS = StaticFacts(date(2026, 3, 1), {"cp": {CONTROL_PLANE_LABEL: CONTROL_PLANE}})
_PACKS = {"packs": OFF}
_RULES = audit_rules(Settings.model_validate(_PACKS), EMPTY.files)
_RESERVED = {"foo.coreweave.cloud/a": "1", "foo.coreweave.cloud/b": "2"}
_OWNER = {"apiVersion": "v1", "kind": "Thing", "name": "t", "uid": "u", "controller": True}
_SUMMARY = "Namespaces `*.coreweave.cloud` or `*.coreweave.com` are not allowed"


def _request(kind: str, namespace: str = "a", **metadata: Any) -> AdmissionRequest:
    named = {"name": "x", "labels": _RESERVED, **({"namespace": namespace} if namespace else {}), **metadata}
    obj = {"apiVersion": "v1", "kind": kind, "metadata": named}
    return creation(obj, GroupVersionResource("", "v1", f"{kind.lower()}s"), namespaced=bool(namespace))


async def test_one_finding_for_a_path() -> None:
    """Two labels at one path are one finding, with both."""
    judged = await Audit(_RULES, _FACTS).judged(_request("ConfigMap"))

    text = f'{_SUMMARY}: foo.coreweave.cloud/a="1"\n{_SUMMARY}: foo.coreweave.cloud/b="2"'
    (finding,) = judged.findings
    subject = Subject("v1", "ConfigMap", "a", "x", "", "ConfigMap/x")
    assert replace(finding, remedy="") == Finding(subject, "labels", "deny", "metadata.labels", text)


@pytest.mark.parametrize(
    "request_",
    [
        _request("Node", ""),
        _request("ConfigMap", "cp"),
        _request("ConfigMap", ownerReferences=[_OWNER]),
        _request("Namespace", "", labels={CONTROL_PLANE_LABEL: CONTROL_PLANE}),
        _request("ConfigMap", deletionTimestamp="2026-03-01T00:00:00Z"),
    ],
    ids=["node", "control-plane", "owned", "namespace-of-the-control-plane", "being-deleted"],
)
async def test_what_controllers_wrote_is_spared(request_: AdmissionRequest) -> None:
    """The rule of labels finds nothing in what the cluster's own components wrote."""
    assert (await Audit(_RULES, _FACTS).judged(request_)).findings == ()


async def test_an_exception_and_its_end_are_told() -> None:
    """What passes only by an exception is exempt, until the end of the exception's last day."""
    exception = PolicyException("moving", ("labels",), "OPS-1", date(2026, 6, 30))
    known = _RULES._replace(ruleset=RuleSet(_RULES.ruleset.rules, (exception,)))

    (finding,) = (await Audit(known, _FACTS).judged(_request("ConfigMap"))).findings

    assert (finding.verdict, finding.until) == ("exempt", "2026-06-30T23:59:59Z")
    assert finding.message.endswith("(exception moving until 2026-06-30: OPS-1)")


async def test_a_change_is_told_with_its_path() -> None:
    """What a mutation would write today is a finding at its path, and no failure."""
    request = _request("Pod", labels={})
    pod = {**(request.object or {}), "spec": {"containers": [{"name": "c"}]}}

    judged = await Audit(_RULES, _FACTS).judged(replace(request, object=pod))

    subject = Subject("v1", "Pod", "a", "x", "", "Pod/x")
    text = 'would be [{"key": "is_cpu_compute", "operator": "Exists", "effect": "NoSchedule"}]'
    assert judged.findings == (Finding(subject, "tolerations", "mutate", "spec.tolerations", text),)


@pytest.mark.parametrize(("field", "spec"), [("f:containers", {}), ("f:nodeName", {"nodeName": "n"}), ("", {})])
def test_an_object_is_judged_as_it_was_sent(field: str, spec: dict[str, str]) -> None:
    """Status, what the API server wrote and the scheduler's choice are left out; a Node that the author named stays."""
    managers = [{"manager": "kubectl", "fieldsV1": {"f:spec": {field: {}}}}] if field else []
    metadata = {"name": "x", "uid": "u", "resourceVersion": "7", "managedFields": managers}
    head, status = {"apiVersion": "v1", "kind": "Pod"}, {"status": {"phase": "Running"}}
    pod = {**head, "metadata": metadata, "spec": {"nodeName": "n"}, **status}

    assert as_sent(pod) == {**head, "metadata": {"name": "x", "uid": "u"}, "spec": spec}
    assert pod["status"] == status["status"]


async def test_a_policy_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """It could not be evaluated, everything else is found, and after three times nobody tries any more."""
    expression = "object.data.text.split('').join(',') != ''"
    rules_ = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}]
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "slow"},
        "spec": {"matchConstraints": {"resourceRules": rules_}, "validations": [{"expression": expression}]},
    }
    files = policyfiles.read([("p.yaml", json.dumps(policy))], drafts=True)
    tried: list[int] = []

    def briefly() -> AbstractContextManager[None]:
        tried.append(1)
        return limited(Limits(memory=2**30, seconds=0))  # any long call takes longer

    monkeypatch.setattr(audit, "limited", briefly)
    work = Audit(audit_rules(Settings.model_validate(_PACKS), files), _FACTS)
    request = _request("ConfigMap")
    request = replace(request, object={**(request.object or {}), "data": {"text": "a" * 9999}})
    said = [[(finding.policy, finding.verdict) for finding in (await work.judged(request)).findings] for _ in range(5)]

    assert (said, len(tried)) == ([[("labels", "deny"), ("slow", "error")]] * 5, 3 * 2 + 2)


_PARTS = [Part(index, 3) for index in range(3)]


def test_every_object_is_in_one_part() -> None:
    """Of 100 Namespaces and 100 Nodes each is judged by one of three audits, and each of these has some to do."""
    named = [(kind, f"x-{number}") for kind in ("Namespace", "Node") for number in range(100)]
    requests = [_request(kind, "", name=name) for kind, name in named]
    judges = [[part.index for part in _PARTS if part.judges(request)] for request in requests]

    assert [len(each) for each in judges] == [1] * len(requests)
    assert {index for each in judges for index in each} == {0, 1, 2}
    assert all(WHOLE.judges(request) for request in requests)


def test_a_namespace_is_with_what_is_in_it() -> None:
    """A Namespace and its objects are in the same part, where whoever owns them is; that never changes."""
    for name in (f"team-{number}" for number in range(20)):
        requests = [_request("Namespace", "", name=name), *(_request("Pod", name, name=f"p-{n}") for n in range(5))]
        parts = {tuple(part.judges(request) for part in _PARTS) for request in requests}
        assert parts == {tuple(part.has(name) for part in _PARTS)}
    assert [next(part.index for part in _PARTS if part.has(name)) for name in ("a", "b", "kube-system")] == [0, 2, 1]


_USER = "request.userInfo, which only a request has"


def _reason(validation: str, *, condition: str = "", variable: str = "true", operations: str = "CREATE UPDATE") -> str:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": operations.split(), "resources": ["pods"]}
    spec: dict[str, Any] = {
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "c", "expression": condition}] if condition else [],
        "variables": [{"name": "v", "expression": variable}],
        "validations": [{"expression": validation, "message": "Mend it."}],
    }
    document = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy"}
    text = yaml.safe_dump({**document, "metadata": {"name": "p"}, "spec": spec})
    (policy,) = policyfiles.read([("p.yaml", text)], drafts=True).loaded.policies
    return reason(policy)


_SPEC = "has(object.spec)"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"validation": "has(object.metadata.labels)"}, ""),
        ({"validation": "request.namespace != 'x' && request.operation == 'CREATE'"}, ""),
        ({"validation": "variables.v", "variable": "oldObject == null ? true : oldObject.spec == object.spec"}, ""),
        ({"validation": "oldObject == null || object.spec == oldObject.spec"}, ""),
        ({"validation": _SPEC, "condition": "!request.userInfo.username.startsWith('system:')"}, ""),
        ({"validation": "request.userInfo.username == 'a'"}, f"it reads {_USER}"),
        ({"validation": "variables.v", "variable": "dyn(request).userInfo.username == 'a'"}, f"it reads {_USER}"),
        (
            {"validation": _SPEC, "condition": "request.userInfo.username == 'alice'"},
            "it reads request.userInfo to choose whose requests it judges",
        ),
        (
            {"validation": "authorizer.group('').resource('pods').check('get').allowed() || true"},
            "it reads authorizer, which only a request has",
        ),
        ({"validation": _SPEC, "operations": "UPDATE DELETE"}, "it judges UPDATE and DELETE, which no object shows"),
    ],
)
def test_policies_that_need_a_request_are_not_asked(given: dict[str, str], expected: str) -> None:
    """A policy is asked unless what it says depends on a requester or on the authorizer."""
    assert _reason(**given) == expected


def _owned(kind: str, name: str, by: tuple[str, str] | None, namespace: str = "a") -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "uid": f"uid-{name}"}
    if by:
        owner = {"apiVersion": "v1", "kind": by[0], "name": by[1], "uid": f"uid-{by[1]}", "controller": True}
        metadata["ownerReferences"] = [owner]
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata}


def _pod(kind: str, owner: str, namespace: str = "a") -> AdmissionRequest:
    resource = GroupVersionResource("", "v1", "pods")
    return creation(_owned("Pod", "p", (kind, owner), namespace), resource, namespaced=True)


def _scope(kind: str, name: str) -> Scope:
    return Scope("v1", kind, "a", name, f"uid-{name}")


async def test_owners_are_read_once() -> None:
    """The Pods of a ReplicaSet that nobody has seen cost one look-up for it and one for its Deployment."""
    asked: list[str] = []
    known = {"web-1": _owned("ReplicaSet", "web-1", ("Deployment", "web")), "web": _owned("Deployment", "web", None)}

    async def read(owner: Owner, _namespace: str) -> dict[str, Any] | None:
        asked.append(owner.name)
        return known.get(owner.name)

    owners = Owners(read)

    topmost = ("Deployment/web", _scope("Deployment", "web"))
    assert [await owners.topmost(_pod("ReplicaSet", "web-1")) for _ in range(3)] == [topmost] * 3
    assert asked == ["web-1", "web"]


async def test_a_report_is_about_what_exists() -> None:
    """Neither an owner whose name another object has by now, nor one in no Namespace can own the report of a Pod."""
    known = {"web-1": {**_owned("ReplicaSet", "web-1", None)}, "node-1": _owned("Node", "node-1", None, "")}
    known["web-1"]["metadata"]["uid"] = "uid-of-its-successor"

    async def read(owner: Owner, _namespace: str) -> dict[str, Any] | None:
        return known[owner.name]

    owners = Owners(read)

    assert [await owners.topmost(_pod(*owner)) for owner in (("ReplicaSet", "web-1"), ("Node", "node-1"))] == [
        ("ReplicaSet/web-1", _scope("Pod", "p")),
        ("Node/node-1", _scope("Pod", "p")),
    ]


async def test_a_false_reference_takes_nothing_from_others() -> None:
    """A Pod of another Namespace that names a Deployment as its owner leaves the Deployment's own Pods with it."""
    known = {"a": _owned("Deployment", "web", None)}

    async def read(_owner: Owner, namespace: str) -> dict[str, Any] | None:
        return known.get(namespace)

    owners = Owners(read)

    false = await owners.topmost(_pod("Deployment", "web", "b"))
    assert false == ("Deployment/web", Scope("v1", "Pod", "b", "p", "uid-p"))
    assert await owners.topmost(_pod("Deployment", "web")) == ("Deployment/web", _scope("Deployment", "web"))


_POD = Subject("v1", "Pod", "a", "web", "uid", "Pod/web", None)


def _record(shard: str, ended: int) -> Record:
    return Record(
        shard, "openreports.io/v1alpha1", ended, 1.5, 3, 0, {"deny": 1}, {"team": {"deny": 1}}, {"written": 1}, {}
    )


def _texts(*records: Record) -> dict[str, str]:
    return {record.key: msgspec.json.encode(record).decode() for record in records}


def _judged(*findings: tuple[str, Verdict]) -> Judged:
    return Judged(_POD, tuple(Finding(_POD, policy, verdict, "", "") for policy, verdict in findings))


def test_objects_are_counted_not_findings() -> None:
    """An object with several findings of a policy counts once for it; a policy with more objects comes first."""
    counts, policies = Counter[str](), Counter[tuple[str, str]]()
    for judged in (
        _judged(("team", "deny"), ("team", "deny"), ("latest", "warn")),
        _judged(("team", "deny"), ("team", "exempt")),
        _judged(),
    ):
        count(counts, judged)
        count_policies(policies, judged)

    assert counts == {"objects": 3, "deny": 2, "exempt": 1, "warn": 1}
    assert list(by_policy(policies).items()) == [("team", {"deny": 2, "exempt": 1}), ("latest", {"warn": 1})]


def test_policies_are_bounded() -> None:
    """Of more policies than a record holds, those with the fewest objects are left out."""
    counts = {(f"p{number}", "deny"): 2 if number else 1 for number in range(MOST + 1)}

    assert by_policy(counts) == {f"p{number}": {"deny": 2} for number in range(1, MOST + 1)}


def test_parts_that_are_no_more_are_left_out() -> None:
    """After an audit in two parts, the records of one in three before do not count; before the first there is none."""
    old, new = [_record(f"{number}/3", 100) for number in range(3)], [_record(f"{number}/2", 200) for number in (0, 1)]

    assert newest(_texts(*old) | _texts(*new)) == new
    assert newest({}) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "Input data was truncated"),
        ("{}", "Object missing required field `shard`"),
        ('{"x": ' + "[" * 100_000, "maximum recursion depth exceeded"),
    ],
    ids=["cut", "empty", "deep"],
)
def test_what_is_no_record_is_named(text: str, reason: str) -> None:
    """Whoever has changed what was kept is told which entry, and what is wrong with it."""
    with pytest.raises(AuditError) as error:
        newest({"0": text})

    assert str(error.value).partition(" while ")[0] == f"data['0'] is no record of an audit: {reason}"
