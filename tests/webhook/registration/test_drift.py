"""What others made of a webhook configuration: what counts, what is said of it, and what is to be written."""

from __future__ import annotations

import base64
from copy import deepcopy
from typing import Any

import pytest
from support.builders import Json

from webhook.configuration.settings import KeptRequirement
from webhook.registration.configurations import (
    BundleOnly,
    Correction,
    Managed,
    Writer,
    changed_by,
    difference,
    foreign,
    kept,
    restored,
)

_KEPT = (
    KeptRequirement(key="control-plane", values=("true",)),
    KeptRequirement(key="control-plane", values=("1",)),
    KeptRequirement(key="kubernetes.azure.com/managedby", values=("aks",)),
    KeptRequirement(key="kubernetes.io/metadata.name", values=("kube-*", "gke-*")),
)
_OWN = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["cks-admission"]}
_AKS = [
    {"key": "control-plane", "operator": "NotIn", "values": ["true"]},
    {"key": "kubernetes.azure.com/managedby", "operator": "NotIn", "values": ["aks"]},
]
_GKE = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "gke-managed-system"]}
_ABSENT = {"key": "control-plane", "operator": "DoesNotExist"}
_THEIRS: Json = {"name": "theirs.example.org", "clientConfig": {"url": "https://example.org"}}


_CLIENT = {"url": "https://127.0.0.1/validate/labels"}
_INJECTED = {"cert-manager.io/inject-ca-from": "cks/serving"}


def _wanted(**more: Any) -> Json:
    """What the service applies, in short."""
    entry = {
        "name": "labels.cks-admission.dev",
        "clientConfig": {**_CLIENT, "caBundle": "AAAA"},
        "failurePolicy": "Fail",
        "matchConditions": [{"name": "one", "expression": "1 == 1"}, {"name": "two", "expression": "2 == 2"}],
        "namespaceSelector": {"matchExpressions": [_OWN]},
        "objectSelector": {},
        "rules": [{"operations": ["CREATE"]}],
        "timeoutSeconds": 5,
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "cks-admission", "labels": {"app": "cks"}, **more},
        "webhooks": [entry],
    }


def _observed(*added: Json, **changes: Any) -> Json:
    """What is in the cluster: with what the API server adds, and changes in the one entry."""
    found = _wanted()
    found["metadata"] |= {"uid": "u-1", "resourceVersion": "7", "labels": {"app": "cks", "theirs": "x"}}
    found["webhooks"] = [{**found["webhooks"][0], **changes}, *added]
    return found


def _injected(observed: Json) -> Json:
    observed["metadata"]["annotations"] = _INJECTED
    return observed


def _selector(*requirements: Json, **more: Any) -> Json:
    return {"matchExpressions": [_OWN, *requirements], **more}


@pytest.mark.parametrize(
    ("added", "stays"),
    [
        (_AKS, _AKS),
        ([_GKE], [_GKE]),
        ([_ABSENT] * 2, [_ABSENT]),
        # What one of the lines about a key allows is allowed.
        ([_AKS[0], {**_AKS[0], "values": ["1"]}], [_AKS[0], {**_AKS[0], "values": ["1"]}]),
        ([{**_GKE, "values": ["kube-system", "default"]}], []),
        ([{**_AKS[0], "operator": "In"}], []),
        ([{**_ABSENT, "operator": "Exists"}], []),
        ([{**_ABSENT, "key": "other"}], []),
        # Every Namespace has a name.
        ([{**_ABSENT, "key": "kubernetes.io/metadata.name"}], []),
    ],
)
def test_what_a_cloud_adds_stays(added: list[Json], stays: list[Json]) -> None:
    """Requirements that are named in the settings are kept beside the wanted ones; any other counts as a change."""
    observed = _observed(namespaceSelector=_selector(*added))

    found = kept(_wanted(), observed, _KEPT)
    correction = Managed(_wanted(), _KEPT).correction(observed)

    assert found["webhooks"][0]["namespaceSelector"] == _selector(*stays)
    assert correction.differences == ([] if stays else ["labels.cks-admission.dev: namespaceSelector"])
    assert correction.configuration == {**found, "metadata": {**found["metadata"], "uid": "u-1"}}


@pytest.mark.parametrize(
    "observed",
    [
        _observed(),
        _observed(matchConditions=_wanted()["webhooks"][0]["matchConditions"][::-1]),
        _observed(namespaceSelector=_selector(matchLabels={})),
        _observed(someLaterField="x"),
        _observed(_THEIRS),
    ],
    ids=["as-it-is", "order-of-conditions", "empty-map-of-labels", "a-field-of-a-later-release", "an-entry-of-others"],
)
def test_what_means_the_same_is_no_difference(observed: Json) -> None:
    """Order, what the API server writes differently, and what is not the service's are left as they are."""
    assert difference(_wanted(), observed) == []


_CHANGES: list[tuple[Json, str]] = [
    ({"failurePolicy": "Ignore"}, "failurePolicy is Ignore, not Fail"),
    ({"timeoutSeconds": 30}, "timeoutSeconds is 30, not 5"),
    ({"objectSelector": {"matchLabels": {"a": "b"}}}, "objectSelector"),
    ({"namespaceSelector": _selector(matchLabels={"a": "b"})}, "namespaceSelector"),
    (
        {
            "matchConditions": [
                {"name": name, "expression": expression}
                for name, expression in (("one", "1 == 1"), ("two", "false"), ("more", "false"))
            ]
        },
        "matchConditions more, two",
    ),
    ({"matchConditions": None}, "matchConditions one, two"),
    ({"clientConfig": _CLIENT}, "clientConfig caBundle"),
    ({"rules": []}, "rules"),
]


@pytest.mark.parametrize(("changes", "expected"), _CHANGES)
def test_a_changed_field_is_told(changes: Json, expected: str) -> None:
    """Each field that differs is named with its entry, and with what can be shown in a line."""
    assert difference(_wanted(), _observed(**changes)) == [f"labels.cks-admission.dev: {expected}"]


def test_everything_else_that_differs_is_told() -> None:
    """Labels, annotations, owners, entries that are gone and entries in the service's name that it did not write."""
    wanted = _wanted(annotations={"a": "b"}, ownerReferences=[{"kind": "ClusterRole", "name": "cks", "uid": "u-2"}])
    observed = _observed()
    observed["metadata"] |= {"labels": None, "ownerReferences": [{"uid": "u-1"}]}
    observed["webhooks"][0]["name"] = "other.cks-admission.dev"

    assert difference(wanted, observed) == [
        "label app",
        "annotation a",
        "owner ClusterRole cks",
        "labels.cks-admission.dev: missing",
        "other.cks-admission.dev: not wanted",
    ]


def test_what_is_restored_is_exactly_what_is_wanted() -> None:
    """The service's entries are put as wanted, but for later fields; what is not the service's is put as it was."""
    later = {"someLaterField": "x"}
    stray = {**_THEIRS, "name": "stray.cks-admission.dev"}
    wanted = _wanted(annotations={"a": "b"}, ownerReferences=[{"kind": "ClusterRole", "name": "cks", "uid": "u-2"}])
    observed = _observed(
        _THEIRS,
        stray,
        matchConditions=[{"name": "never", "expression": "false"}],
        clientConfig={"service": {"name": "evil"}},
        **later,
    )
    observed["metadata"]["ownerReferences"] = [{"uid": "u-1"}]
    before = deepcopy(observed)

    assert restored(wanted, observed) == {
        **wanted,
        "metadata": {
            **before["metadata"],
            "annotations": {"a": "b"},
            "ownerReferences": [{"uid": "u-1"}, {"kind": "ClusterRole", "name": "cks", "uid": "u-2"}],
        },
        "webhooks": [{**wanted["webhooks"][0], **later}, _THEIRS],
    }
    assert (observed, foreign(observed)) == (before, [_THEIRS])


def test_an_injected_bundle_is_somebody_elses() -> None:
    """Where cert-manager writes the CA it is neither a difference nor lost; the rest of the clientConfig counts."""
    wanted = _wanted(annotations=_INJECTED)
    observed = _injected(_observed(clientConfig={**_CLIENT, "caBundle": "BBBB"}))
    elsewhere = _injected(_observed(clientConfig={"url": "https://evil", "caBundle": "BBBB"}))
    own = {**_CLIENT, "caBundle": "BBBB"}

    same, moved = Managed(wanted).correction(observed), Managed(wanted).correction(elsewhere)
    put_right = Managed(wanted).replacement(elsewhere)
    assert (same.differences, moved.differences) == ([], ["labels.cks-admission.dev: clientConfig url"])
    written = (same.configuration, moved.configuration, put_right)
    assert [each["webhooks"][0]["clientConfig"] for each in written if each] == [own] * 3


@pytest.mark.parametrize("first", ["AAAA", ""])
def test_a_new_entry_begins_with_the_ca_of_another(first: str) -> None:
    """What cert-manager has not come to yet has the CA of others; where there are none, the one to begin with."""
    wanted = _wanted(annotations=_INJECTED)
    entry = {**wanted["webhooks"][0], "clientConfig": {**_CLIENT, **({"caBundle": first} if first else {})}}
    wanted["webhooks"] = [entry, {**entry, "name": "pods.cks-admission.dev"}]
    alone = _injected({**_observed(), "webhooks": [_THEIRS]})
    bare = _injected(_observed(clientConfig=_CLIENT))
    injected = _injected(_observed(clientConfig={**_CLIENT, "caBundle": "BBBB"}))

    found = {}
    for name, observed in (("alone", alone), ("bare", bare), ("injected", injected)):
        applied = Managed(wanted).correction(observed).configuration
        assert applied is not None
        found[name] = [each["clientConfig"].get("caBundle", "") for each in applied["webhooks"]]
    assert found == {"alone": [first] * 2, "bare": [first] * 2, "injected": ["BBBB"] * 2}


@pytest.mark.parametrize(
    ("target", "observed", "correction"),
    [
        (Managed(None), None, Correction(None, [])),
        (Managed(None), _observed(), Correction(None, ["no rule needs it"])),
        (Managed(_wanted()), None, Correction(_wanted(), ["it does not exist"])),
        (BundleOnly(b"x"), None, Correction(None, [])),
        (BundleOnly(b""), _observed(), Correction(None, [])),
        (BundleOnly(b"x"), {**_observed(), "webhooks": [_THEIRS]}, Correction(None, [])),
    ],
)
def test_what_there_is_to_do_where_something_is_missing(
    target: Managed | BundleOnly, observed: Json | None, correction: Correction
) -> None:
    """What is not there is made where it is wanted whole, and never for its caBundle alone."""
    assert target.correction(observed) == correction


def test_only_a_bundle_is_applied() -> None:
    """Of what somebody else applies the service writes the caBundles of its entries, in the object that it saw."""
    target = BundleOnly(b"ca")
    encoded = base64.b64encode(b"ca").decode()
    wanted = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "cks-admission", "uid": "u-1"},
        "webhooks": [{"name": "labels.cks-admission.dev", "clientConfig": {"caBundle": encoded}}],
    }

    assert target.correction(_observed(_THEIRS)) == Correction(wanted, ["labels.cks-admission.dev: caBundle"])
    assert target.correction(_observed(_THEIRS, clientConfig={"caBundle": encoded})) == Correction(wanted, [])
    assert target.replacement(_observed()) is None


@pytest.mark.parametrize(
    ("entries", "writer"),
    [
        ([], Writer("", "")),
        ([("cks-admission", "T12:00")], Writer("", "")),
        ([("cks-admission", "T12:00"), ("kubectl", "T12:01"), ("helm", "T12:02")], Writer("helm", "T12:02")),
        ([("cks-admission", "T12:00"), ("kubectl", "T11:59")], Writer("", "")),
        ([("cks-admission", "T12:00"), ("kubectl", "T12:00")], Writer("kubectl", "T12:00")),
    ],
    ids=["nothing-is-known", "nobody-else", "the-last", "before-us", "same-second"],
)
def test_who_wrote_last_is_told(entries: list[tuple[str, str]], writer: Writer) -> None:
    """The manager with the newest entry that is not older than the service's own, if there is one."""
    fields = [{"manager": manager, "time": time} for manager, time in entries]

    assert changed_by({"metadata": {"managedFields": fields}}) == writer
