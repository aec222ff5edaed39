from __future__ import annotations

import pytest
from support.builders import TODAY

from policies.engine.facts import StaticFacts
from policies.engine.request import JsonObject

_GIVEN = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "team", "labels": {"a": "b"}, "annotations": {"owner": "x"}},
    "spec": {"finalizers": ["example.org/f"]},
    "status": {"phase": "Terminating"},
}


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        pytest.param(
            StaticFacts(TODAY),
            {
                "metadata": {"name": "team", "labels": {"kubernetes.io/metadata.name": "team"}},
                "spec": {"finalizers": ["kubernetes"]},
                "status": {"phase": "Active"},
            },
            id="nothing-given",
        ),
        pytest.param(
            StaticFacts(TODAY, {"team": {"c": "d"}}, whole_namespaces={"team": _GIVEN}),
            {**_GIVEN, "metadata": {"name": "team", "labels": {"c": "d"}, "annotations": {"owner": "x"}}},
            id="all-given",
        ),
        pytest.param(
            StaticFacts(TODAY, {"team": {"c": "d"}}, whole_namespaces={"team": {"metadata": {}, "spec": []}}),
            {
                "metadata": {"name": "team", "labels": {"c": "d"}},
                "spec": {"finalizers": ["kubernetes"]},
                "status": {"phase": "Active"},
            },
            id="parts-that-are-no-maps",
        ),
    ],
)
def test_a_namespace_is_what_is_given_of_it_and_what_all_have(facts: StaticFacts, found: JsonObject) -> None:
    """A Namespace has the labels known of it, what a file says of it, and what the API server would fill in."""
    assert facts.namespace("team") == found
