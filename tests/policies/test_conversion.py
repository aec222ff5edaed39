"""Policies of Kyverno and Gatekeeper, turned: they judge as before, and what is lost is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import cks_admission
from cks_admission import DocumentError, Request, evaluate
from policies.conversion import Kind, convert, literal, read_kind
from policies.lint.review import review
from policies.objects.fieldpath import render
from webhook.sources import policyfiles

_FOREIGN = yaml.safe_load((Path(__file__).parent / "foreign.yaml").read_text(encoding="utf-8"))
_NAMES = [entry["name"] for entry in _FOREIGN]


def _object(given_: dict[str, Any]) -> dict[str, Any]:
    """A Pod or a ConfigMap of a few words."""
    metadata = {"name": given_.get("name", "a"), "namespace": given_.get("namespace", "default")}
    if "labels" in given_:
        metadata["labels"] = given_["labels"]
    head = {"apiVersion": "v1", "kind": given_.get("kind", "Pod"), "metadata": metadata}
    ports = {"ports": [{"containerPort": 80, "hostPort": given_["port"]}]} if "port" in given_ else {}
    spec = {"containers": [{"name": "main", "image": "main:1", **ports}]}
    return head if head["kind"] == "ConfigMap" else {**head, "spec": spec}


def _judged(entry: dict[str, Any]) -> list[dict[str, Any]]:
    """What the turned policies say to the cases, in the form of the cases."""
    made = [obj for conversion in convert(entry["documents"]) for obj in conversion.objects]
    namespaces = [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
        }
        for name in ("default", "web", "other", "team-a", "kube-system", "sys-a")
    ]
    policies = cks_admission.compile([*made, *namespaces])
    judged = []
    for case in entry["cases"]:
        request = Request(
            object=_object(case["object"]), user=case.get("user", "alice"), groups=tuple(case.get("groups", ()))
        )
        verdict = evaluate(policies, request)
        told: dict[str, Any] = {"allowed": True} if verdict.allowed else {"message": verdict.findings[0].message}
        if verdict.warnings:
            told["warnings"] = len(verdict.warnings)
        judged.append({**{key: case[key] for key in ("object", "user", "groups") if key in case}, **told})
    return judged


@pytest.mark.parametrize("entry", [entry for entry in _FOREIGN if "cases" in entry], ids=lambda entry: entry["name"])
def test_they_judge_as_before(entry: dict[str, Any]) -> None:
    """The policies that are made admit, refuse and warn as the product did that they come from."""
    assert _judged(entry) == entry["cases"]


@pytest.mark.parametrize("entry", _FOREIGN, ids=_NAMES)
def test_what_is_lost_is_told_with_its_place(entry: dict[str, Any]) -> None:
    """Each part that has no counterpart is told, with its path and the reason, and nothing else is."""
    remarks = [remark for conversion in convert(entry["documents"]) for remark in conversion.remarks if remark.lost]

    assert sorted(f"{render(one.path)}: {one.text}" for one in remarks) == sorted(entry.get("lost", []))


@pytest.mark.parametrize("entry", _FOREIGN, ids=_NAMES)
def test_lint_finds_nothing_of_our_own(entry: dict[str, Any]) -> None:
    """What is made has no findings but those about the words of its author."""
    found = []
    for conversion in convert(entry["documents"]):
        text = "---\n".join(map(yaml.safe_dump, conversion.objects))
        if not entry.get("refused"):
            loaded = policyfiles.read([("made", text)], drafts=True).loaded
            found += [one for one in review(loaded, policyfiles.parse(text, "made")) if one.id != "no-remedy"]

    assert found == []


@pytest.mark.parametrize("entry", _FOREIGN, ids=_NAMES)
def test_kubernetes_takes_what_is_made(entry: dict[str, Any]) -> None:
    """What is made is valid, but where an expression uses what only the other product knows."""
    refused = []
    for document, conversion in zip(entry["documents"], convert(entry["documents"]), strict=True):
        try:
            cks_admission.compile(list(conversion.objects))
        except DocumentError:
            refused.append(document["metadata"]["name"])

    assert refused == entry.get("refused", [])


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("Pod", Kind("*", "*", "Pod")),
        ("v1/Pod", Kind("", "v1", "Pod")),
        ("apps/v1/Deployment", Kind("apps", "v1", "Deployment")),
        ("batch/*/Job", Kind("batch", "*", "Job")),
        ("*/Job", Kind("*", "*", "Job")),
        ("apps/Deployment", Kind("apps", "*", "Deployment")),
        ("Pod/exec", Kind("*", "*", "Pod", "exec")),
        ("Deployment.scale", Kind("*", "*", "Deployment", "scale")),
        ("*", Kind("*", "*", "*")),
    ],
)
def test_kinds_are_read_as_kyverno_reads_them(written: str, kind: Kind) -> None:
    """Group, version, kind and subresource are told apart."""
    assert read_kind(written) == kind


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(_JSON)
def test_a_literal_has_the_value(value: object) -> None:
    """Parameters that are written into an expression come out as they were."""
    assert evaluate(cks_admission.compile(f"dyn({literal(value)})"), Request(object={})).value == value


@given(st.sampled_from([document for entry in _FOREIGN for document in entry["documents"]]), st.data())
def test_no_document_breaks_it(document: dict[str, Any], data: st.DataObject) -> None:
    """Whatever stands in a field, there is an outcome: something is made, or the loss is told."""
    broken = json.loads(json.dumps(document))
    place = broken
    while isinstance(place, dict | list) and place:
        key = data.draw(st.sampled_from(list(place) if isinstance(place, dict) else range(len(place))))
        if not isinstance(place[key], dict | list) or data.draw(st.booleans()):
            place[key] = data.draw(_JSON)
            break
        place = place[key]

    (conversion,) = convert([broken])

    kinds_ = [obj["kind"].removesuffix("Binding") for obj in conversion.objects]
    assert kinds_ == ["ValidatingAdmissionPolicy"] * len(kinds_)
