"""The part of a cluster that one of several audits judges."""

from __future__ import annotations

from typing import Any

from policies.engine.request import AdmissionRequest, GroupVersionResource
from webhook.audit.finding import WHOLE, Part
from webhook.audit.rules import creation

_PARTS = [Part(index, 3) for index in range(3)]


def _request(kind: str, plural: str, name: str, namespace: str = "") -> AdmissionRequest:
    metadata: dict[str, Any] = {"name": name, **({"namespace": namespace} if namespace else {})}
    obj = {"apiVersion": "v1", "kind": kind, "metadata": metadata}
    return creation(obj, GroupVersionResource("", "v1", plural), namespaced=bool(namespace))


def test_every_object_is_in_one_part() -> None:
    """Of 100 Namespaces and 100 Nodes each is judged by one of three audits, and each of these has some to do."""
    requests = [
        *(_request("Namespace", "namespaces", f"team-{number}") for number in range(100)),
        *(_request("Node", "nodes", f"node-{number}") for number in range(100)),
    ]
    judges = [[part.index for part in _PARTS if part.judges(request)] for request in requests]

    assert [len(each) for each in judges] == [1] * len(requests)
    assert {index for each in judges for index in each} == {0, 1, 2}
    assert all(WHOLE.judges(request) for request in requests)


def test_a_namespace_is_with_what_is_in_it() -> None:
    """A Namespace and its objects are in the same part, where whoever owns them is; that never changes."""
    for number in range(20):
        name = f"team-{number}"
        requests = [
            _request("Namespace", "namespaces", name),
            *(_request("Pod", "pods", f"pod-{pod}", name) for pod in range(5)),
        ]
        assert {tuple(part.judges(request) for part in _PARTS) for request in requests} == {
            tuple(part.has(name) for part in _PARTS)
        }
    assert [next(part.index for part in _PARTS if part.has(name)) for name in ("a", "b", "kube-system")] == [0, 2, 1]
