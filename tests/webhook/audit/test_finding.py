"""What an audit finds: whose objects are, and what is kept of it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest

from policies.engine.request import AdmissionRequest, GroupVersionResource, Owner
from webhook.audit.audit import creation
from webhook.audit.finding import (
    MOST,
    AuditError,
    Finding,
    Judged,
    Owners,
    Record,
    Scope,
    Subject,
    Verdict,
    by_policy,
    count,
    count_policies,
    newest,
)


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
