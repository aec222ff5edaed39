"""What is known of the cluster: what is given, what was found for a review, and what could not be found."""

from __future__ import annotations

import pytest
from support.builders import TODAY

from policies.cel.library.authorizer import Check, CheckAnswer, User
from policies.engine.facts import Facts, NamespaceKey, References, ReferencesKey, StaticFacts
from policies.engine.interruption import FactUnavailable

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
