"""The match condition of the rule for selectors: true where it may have to say something."""

from __future__ import annotations

from typing import Any

import pytest
from support.builders import WORKLOADS, Json, at, merged
from support.cel.celrun import compiled, names
from support.mistakes import Row, correct, mistakes

from policies.cel.cost import EXPRESSION_LIMIT
from policies.matchconditions import selectors_are_concerned
from policies.objects.fieldpath import render
from policies.objects.workload import HISTORIES

_ROWS = [row for row in WORKLOADS.values() if row.templates and row.group_kind not in HISTORIES and row.kind != "Pod"]
_PODS, _TEMPLATES = (compiled(selectors_are_concerned(rows).expression) for rows in ((), _ROWS))
_MISTAKES = [
    row for row in mistakes() if row.subject == "selectors" and any(line.startswith("spec") for line in row.says)
]
_OWNER = {"ownerReferences": [{"controller": True, "kind": "ReplicaSet", "name": "a"}]}


def _asked(obj: Json, old: Json | None = None) -> bool:
    condition = _PODS if obj["kind"] == "Pod" else _TEMPLATES
    group, _, version = obj["apiVersion"].rpartition("/")
    kinds = {"kind": {"group": group, "version": version, "kind": obj["kind"]}}
    variables: dict[str, Any] = {**names({}, oldObject=old, request=kinds), "object": obj}
    found, exact = condition.evaluate(variables), condition.evaluate_exactly(variables)
    assert (found.error, exact.error, found.value) == (None, None, exact.value)
    assert found.cost < EXPRESSION_LIMIT
    return bool(exact.value)


def test_mistakes_are_asked_about() -> None:
    """The API server asks about every mistake of the table that the rule tells of."""
    assert len(_MISTAKES) > 80
    assert [row.name for row in _MISTAKES if not _asked(row.manifest)] == []


@pytest.mark.parametrize("row", [_MISTAKES[0], next(row for row in _MISTAKES if row.manifest["kind"] == "Job")],
                         ids=lambda row: row.manifest["kind"])  # fmt: skip
def test_what_is_not_asked_about(row: Row) -> None:
    """What a controller owns, and what is as it was, costs no call."""
    obj = row.manifest

    assert not _asked({**obj, "metadata": {**obj["metadata"], **_OWNER}})
    assert not _asked(obj, obj)


def test_ordinary_objects() -> None:
    """Labels of one's own, and those that nearly every selector has, cost no call."""
    ordinary = {"labels of one's own", "a topology key of one's own", "Linux on amd64", "a name of a Node"}
    ordinary |= {"a control plane's toleration and selector", "a GPU's product"}

    assert {row.name for row in correct() if row.name in ordinary and not _asked(row.manifest)} == ordinary
    assert not _asked({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": []}})
    assert not _asked({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {}, "spec": {"template": {}}})


def test_every_kind_and_template() -> None:
    """A key that looks known is found in each template of each kind, behind items that have none."""
    found = []
    for row in _ROWS:
        for pattern in row.templates:
            selector = (*pattern, *row.shape.place(("spec", "nodeSelector")))
            place = render(selector).replace("[*]", "[1]").replace(".*", ".any")
            obj = at(place, {"backend.coreweave.cloud/superpod": "1"})
            kinds = {"kind": {"group": row.group, "version": "v1", "kind": row.kind}}
            written = merged({"metadata": {"name": "a"}}, obj)
            answer = _TEMPLATES.evaluate_exactly({**names({}, oldObject=None, request=kinds), "object": written})
            found.append((row.kind, place, answer.error, answer.value))

    assert [one for one in found if one[2:] != (None, True)] == []
