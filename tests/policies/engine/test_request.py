"""What every rule sees: the request, what it says about itself, and what is known of the cluster."""

from __future__ import annotations

from typing import Any

import pytest
from support.builders import TODAY, owner, pod, request, resource

from policies.cel.library.authorizer import Check, CheckAnswer, User
from policies.engine.facts import Facts, NamespaceKey, References, ReferencesKey, StaticFacts
from policies.engine.interruption import FactUnavailable
from policies.engine.request import Owner, controller, is_being_deleted, is_mirror_pod, is_owned


def test_the_namespace_that_an_object_lives_in() -> None:
    """The request's namespace counts, and a Namespace lives in none although the API server names one."""
    team = resource("v1", "Namespace", name="team-a")
    inside = [
        *(request(obj, namespace="team-a") for obj in (pod(), pod(metadata={"namespace": ""}))),
        request(resource("example.org/v1", "Thing"), resource="namespaces", namespace="team-a"),
    ]
    in_none = [request(resource("v1", "Node")), *(request(team, sub_resource=sub) for sub in ("", "finalize"))]

    assert [asked.scope_namespace for asked in (*inside, *in_none)] == ["team-a"] * 3 + [""] * 3


def test_the_name_for_people() -> None:
    """An object is called by its name, or by what its name will begin with."""
    asked = {
        "web-1": request(pod(), name="web-1"),
        "web-2": request(pod(metadata={"name": "web-2"}), name=""),
        "web-…": request({"metadata": {"generateName": "web-"}}),
        "web-3": request(None, old=pod(), name="web-3"),
    }
    odd = [request({"metadata": {"name": None, "generateName": None}}), request({"metadata": []})]

    assert [each.display_name for each in (*asked.values(), *odd)] == [*asked, "…", "…"]


def test_owned_objects() -> None:
    """An object is owned when a controller says so in an owner reference."""
    both = [*owner(controller=False)["ownerReferences"], *owner()["ownerReferences"]]
    owned = [owner(), {"ownerReferences": both}]
    references: list[Any] = [[{"controller": "true"}], [{}, None, "x"], None, {"controller": True}]
    others = [owner(controller=False), {}, *({"ownerReferences": each} for each in references)]

    assert [metadata for metadata in (*owned, *others) if is_owned({"metadata": metadata})] == owned


def test_mirror_pods_and_deletion() -> None:
    """The mirror annotation with any value makes a mirror; a deletion has begun when it has a time."""
    assert is_mirror_pod({"metadata": {"annotations": {"kubernetes.io/config.mirror": ""}}}) is True
    assert is_mirror_pod({"metadata": {"annotations": {"kubernetes.io/config.source": "file"}}}) is False
    assert is_mirror_pod({"metadata": {"annotations": ["kubernetes.io/config.mirror"]}}) is False
    assert is_being_deleted({"metadata": {"deletionTimestamp": "2026-03-01T00:00:00Z"}}) is True
    assert is_being_deleted({"metadata": {"deletionTimestamp": None}}) is False
    assert [check(None) for check in (is_owned, is_mirror_pod, is_being_deleted)] == [False, False, False]


_REFERENCE = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u", "controller": True}


def test_the_controller_is_one_of_the_owners() -> None:
    """Others own an object, too; only one of them is its controller."""
    other = {**_REFERENCE, "name": "other", "controller": False}
    owner = controller({"metadata": {"ownerReferences": [other, _REFERENCE]}})

    assert owner == Owner("apps/v1", "ReplicaSet", "web-1", "u")
    assert owner.group_kind == ("apps", "ReplicaSet")


@pytest.mark.parametrize(
    "references",
    [
        None,
        {},
        ["web-1"],
        [{**_REFERENCE, "controller": "true"}],
        [{**_REFERENCE, "uid": 1}],
        [{**_REFERENCE, "name": ""}],
        [{**_REFERENCE, "uid": "u" * 254}],
    ],
)
def test_what_is_no_reference_names_no_controller(references: Any) -> None:
    """Missing, of another type, empty, or longer than any name is."""
    assert controller({"metadata": {"ownerReferences": references}}) is None


_GIVEN = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "team", "labels": {"a": "b"}, "annotations": {"owner": "x"}},
    "spec": {"finalizers": ["example.org/f"]},
    "status": {"phase": "Terminating"},
}


def test_a_namespace_is_what_is_given_of_it_and_what_all_have() -> None:
    """A Namespace has the labels known of it, what a file says of it, and what the API server would fill in."""
    filled = {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
    labels = {"team": {"c": "d"}}
    whole = StaticFacts(TODAY, labels, whole_namespaces={"team": _GIVEN})
    odd = StaticFacts(TODAY, labels, whole_namespaces={"team": {"metadata": {}, "spec": []}})

    assert [facts.namespace("team") for facts in (StaticFacts(TODAY), whole, odd)] == [
        {"metadata": {"name": "team", "labels": {"kubernetes.io/metadata.name": "team"}}, **filled},
        {**_GIVEN, "metadata": {"name": "team", "labels": {"c": "d"}, "annotations": {"owner": "x"}}},
        {"metadata": {"name": "team", "labels": {"c": "d"}}, **filled},
    ]


def test_what_was_found_for_a_review_comes_first() -> None:
    """An entry is the value of its key, whatever is known besides; the facts before stay as they are."""
    before: Facts = StaticFacts(TODAY, naming={"halls": References(("Job a/b",))})
    racks = References(("Job default/train",))
    after = before.entered(ReferencesKey("racks"), racks).entered(ReferencesKey("halls"), References())

    found = [after.look_up(ReferencesKey(name)) for name in ("racks", "halls", "none")]
    assert found == [racks, References(), References()]
    assert before.look_up(ReferencesKey("halls")) == References(("Job a/b",))


def test_what_could_not_be_found_fails_the_look_up() -> None:
    """The failure that was entered under a key is raised wherever its value is asked for."""
    lost = FactUnavailable("namespace team could not be read")
    facts = StaticFacts(TODAY).entered(NamespaceKey("team"), lost)

    for ask in (facts.namespace, facts.namespace_labels):
        with pytest.raises(FactUnavailable) as caught:
            ask("team")
        assert caught.value is lost
    assert facts.namespace_labels("other") == {"kubernetes.io/metadata.name": "other"}


def test_a_check_without_a_cluster_is_answered_with_an_error() -> None:
    """Expressions see why there is no answer."""
    answer = StaticFacts(TODAY).answer(Check(user=User("alice"), verb="get"))

    assert answer == CheckAnswer(allowed=False, error="there is no cluster to ask")
