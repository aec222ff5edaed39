"""What others made of a webhook configuration, what is to be written, and which entries wait for replicas."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties.shapes import bounded
from support.api.fakeapi import Json

from webhook.configuration.settings import KeptRequirement
from webhook.registration.configurations import (
    Announcement,
    BundleOnly,
    Correction,
    Managed,
    Writer,
    announced,
    changed_by,
    closed_paths,
    difference,
    foreign,
    kept,
    path_of,
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


KIND = "ValidatingWebhookConfiguration"
OLD, NEW = "/validate/old", "/validate/new"


def _entry(path: str, policy: str = "Fail", domain: str = "cks-admission.dev") -> Json:
    client = {"service": {"name": "s", "namespace": "n", "path": path}}
    return {"name": f"{path.rpartition('/')[2]}.{domain}", "clientConfig": client, "failurePolicy": policy}


def configuration(*entries: Json) -> dict[str, Json]:
    """The one configuration, by its kind; none without entries."""
    return {KIND: {"kind": KIND, "metadata": {"name": "x"}, "webhooks": list(entries)}} if entries else {}


def _replica(name: str, paths: Iterable[str] | None, *, ready: bool = True) -> Announcement:
    return Announcement(name, ready=ready, paths=None if paths is None else frozenset(paths))


DESIRED = configuration(_entry(OLD), _entry(NEW), _entry("/validate/open", "Ignore"))
BEFORE = configuration(_entry(OLD))
KNOWS, LACKS = (OLD, NEW), (OLD,)


@pytest.mark.parametrize(
    ("observed", "replicas", "waits_for"),
    [
        pytest.param(BEFORE, [_replica("a", KNOWS), _replica("b", KNOWS)], None, id="all-know-it"),
        pytest.param(BEFORE, [_replica("a", KNOWS), _replica("b", LACKS)], ("b",), id="one-lacks-it"),
        pytest.param(BEFORE, [_replica("a", KNOWS), _replica("b", LACKS, ready=False)], ("b",), id="not-ready-yet"),
        pytest.param(BEFORE, [_replica("a", KNOWS), _replica("b", None)], ("b",), id="one-has-not-said"),
        pytest.param(BEFORE, [_replica("a", KNOWS), _replica("b", None, ready=False)], None, id="one-is-starting"),
        pytest.param(BEFORE, [_replica("a", KNOWS, ready=False)], ("no replica is ready",), id="none-is-ready"),
        pytest.param(DESIRED, [_replica("a", KNOWS), _replica("b", LACKS, ready=False)], ("b",), id="taken-away"),
        pytest.param(DESIRED, [_replica("a", None), _replica("b", None)], None, id="a-partition-takes-nothing"),
        pytest.param(DESIRED, [], None, id="all-dead-takes-nothing"),
    ],
)
def test_an_entry_waits_for_replicas(
    observed: dict[str, Json], replicas: list[Announcement], waits_for: tuple[str, ...] | None
) -> None:
    """It comes when all that are ready know it, goes for one that does not, and stays if nobody answers."""
    remaining, withheld = announced(DESIRED, observed, replicas)

    paths = [path_of(each) for each in remaining[KIND]["webhooks"]]
    assert paths == ([OLD, NEW, "/validate/open"] if waits_for is None else [OLD, "/validate/open"])
    told = f"new.cks-admission.dev fails closed at {NEW}, and is not registered before all replicas answer there: "
    assert withheld == ([] if waits_for is None else [told + ", ".join(waits_for)])


_PATHS = st.sets(st.sampled_from([OLD, NEW]))
_REPLICAS = st.lists(
    st.builds(Announcement, st.just("r"), ready=st.booleans(), paths=st.none() | _PATHS.map(frozenset))
)


@bounded
@given(_REPLICAS, _PATHS)
def test_nobody_is_asked_what_he_does_not_know(replicas: list[Announcement], before: set[str]) -> None:
    """Of any replicas none is known not to answer an entry that fails closed, and no ready one may lack a new one."""
    remaining, withheld = announced(DESIRED, configuration(*map(_entry, sorted(before))), replicas)

    closed = set(closed_paths(remaining.values()))
    lacking = {path for path in (OLD, NEW) for each in replicas if each.paths is not None and path not in each.paths}
    unsure = {path for path in (OLD, NEW) for each in replicas if each.ready and path not in (each.paths or ())}
    assert not closed & lacking
    assert not (closed - before) & unsure
    assert closed >= before - lacking
    assert {path for path in (OLD, NEW) for each in withheld if f" at {path}, " in each} == {OLD, NEW} - closed
    assert any(each["failurePolicy"] == "Ignore" for each in remaining[KIND]["webhooks"])


def test_a_configuration_without_entries_is_none() -> None:
    """Where every entry waits there is no configuration to write."""
    assert announced(configuration(_entry(NEW)), {}, [])[0] == {}


def test_only_own_entries_that_fail_closed_count() -> None:
    """The path is that of the Service or of the URL; without a failure policy the API server's default counts."""
    url = {"name": "url.cks-admission.dev", "clientConfig": {"url": "https://x.example:9443/base/validate/u"}}
    theirs, open_ = _entry("/validate/theirs", domain="example.org"), _entry("/validate/open", "Ignore")

    assert closed_paths(configuration(_entry(OLD), url, theirs, open_).values()) == [OLD, "/validate/u"]
