"""Node selectors and required node affinity against a Node, with Kubernetes' meaning."""

from typing import Any

import pytest

from policies.engine.facts import Node
from policies.podspec import allows

_LABELS = {"zone": "a", "rack": "12", "gpu": "", "word": "x"}
_NODE = Node("n1", _LABELS)
_UNNAMED = Node("", _LABELS)


def _affinity(terms: Any) -> dict[str, Any]:
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    }


def _need(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def _labels(*needs: Any) -> dict[str, Any]:
    return {"matchExpressions": list(needs)}


def _fields(*needs: Any) -> dict[str, Any]:
    return {"matchFields": list(needs)}


@pytest.mark.parametrize(
    ("term", "by_the_node", "by_some_labels"),
    [
        pytest.param(_labels(_need("zone", "In", "b", "a")), True, True, id="in"),
        pytest.param(_labels(_need("zone", "In", "b")), False, False, id="in-others"),
        pytest.param(_labels(_need("zone", "In")), False, False, id="in-nothing"),
        pytest.param(_labels(_need("absent", "In", "a")), False, True, id="in-absent"),
        pytest.param(_labels(_need("zone", "NotIn", "b")), True, True, id="not-in"),
        pytest.param(_labels(_need("zone", "NotIn", "a")), False, False, id="not-in-itself"),
        pytest.param(_labels(_need("absent", "NotIn", "a")), True, True, id="not-in-absent"),
        pytest.param(_labels(_need("gpu", "Exists")), True, True, id="exists-with-empty-value"),
        pytest.param(_labels({"key": "gpu", "operator": "Exists"}), True, True, id="exists-without-values"),
        pytest.param(_labels(_need("absent", "Exists")), False, True, id="exists-absent"),
        pytest.param(_labels(_need("absent", "DoesNotExist")), True, True, id="does-not-exist"),
        pytest.param(_labels(_need("zone", "DoesNotExist")), False, False, id="does-not-exist-present"),
        pytest.param(_labels(_need("rack", "Gt", "11")), True, True, id="greater"),
        pytest.param(_labels(_need("rack", "Gt", "12")), False, False, id="greater-equal"),
        pytest.param(_labels(_need("rack", "Lt", "100")), True, True, id="less-by-number"),
        pytest.param(_labels(_need("rack", "Lt", "9")), False, False, id="less-not-by-text"),
        pytest.param(_labels(_need("absent", "Gt", "1")), False, True, id="greater-absent"),
        pytest.param(_labels(_need("word", "Gt", "1")), False, False, id="greater-no-number"),
        pytest.param(_labels(_need("rack", "Lt", "x")), False, False, id="less-than-no-number"),
        pytest.param(_labels(_need("rack", "Gt")), False, False, id="greater-than-nothing"),
        pytest.param(_labels(_need("zone", "Like", "a")), False, False, id="unknown-operator"),
        pytest.param(_labels(_need("zone", "Exists"), _need("gpu", "In", "x")), False, False, id="one-of-two"),
        pytest.param(_fields(_need("metadata.name", "In", "n1")), True, True, id="name"),
        pytest.param(_fields(_need("metadata.name", "In", "n2")), False, True, id="another-name"),
        pytest.param(_fields(_need("metadata.name", "NotIn", "n1")), False, True, id="not-this-name"),
        pytest.param(
            _labels(_need("zone", "Exists")) | _fields(_need("metadata.name", "In", "n2")),
            False,
            True,
            id="not-the-name",
        ),
        pytest.param(
            _labels(_need("zone", "In", "b")) | _fields(_need("metadata.name", "In", "n1")),
            False,
            False,
            id="only-the-name",
        ),
        pytest.param({}, False, False, id="empty-term"),
        pytest.param({"matchExpressions": [], "matchFields": None}, False, False, id="term-with-empty-lists"),
        pytest.param(None, False, False, id="null-term"),
        pytest.param("zone", False, False, id="term-is-text"),
    ],
)
def test_a_term(term: Any, by_the_node: bool, by_some_labels: bool) -> None:  # noqa: FBT001
    """Each operator decides as Kubernetes does; where only some labels are known, requirements on others hold."""
    assert allows(_affinity([term]), _NODE) is by_the_node
    assert allows(_affinity([term]), _UNNAMED, labels_complete=False) is by_some_labels


@pytest.mark.parametrize(
    ("terms", "allowed"),
    [
        pytest.param([_labels(_need("zone", "In", "b")), _labels(_need("zone", "In", "a"))], True, id="one-matches"),
        pytest.param([_labels(_need("zone", "In", "b")), _labels(_need("zone", "In", "c"))], False, id="none-matches"),
        pytest.param([{}, _labels(_need("zone", "In", "a"))], True, id="an-empty-one-takes-nothing-away"),
        pytest.param([], False, id="empty-list"),
        pytest.param(None, False, id="null"),
        pytest.param("zone", False, id="text"),
    ],
)
def test_terms(terms: Any, allowed: bool) -> None:  # noqa: FBT001
    """Terms are alternatives, and no terms at all match nothing."""
    assert allows(_affinity(terms), _NODE) is allowed


@pytest.mark.parametrize(
    ("selector", "by_the_node", "by_some_labels"),
    [
        pytest.param({"zone": "a"}, True, True, id="match"),
        pytest.param({"zone": "a", "rack": "12"}, True, True, id="all-match"),
        pytest.param({"zone": "a", "rack": "13"}, False, False, id="one-differs"),
        pytest.param({"absent": "1"}, False, True, id="absent"),
        pytest.param({"absent": ""}, False, True, id="absent-is-not-empty"),
        pytest.param({"zone": None}, False, False, id="null-value"),
        pytest.param({"zone": ["a"]}, False, False, id="list-value"),
        pytest.param({}, True, True, id="empty"),
        pytest.param(None, True, True, id="null"),
        pytest.param(["zone"], True, True, id="list"),
    ],
)
def test_node_selectors(selector: Any, by_the_node: bool, by_some_labels: bool) -> None:  # noqa: FBT001
    """Every label of the selector must be the Node's, as far as the Node's labels are known."""
    assert allows({"nodeSelector": selector}, _NODE) is by_the_node
    assert allows({"nodeSelector": selector}, _UNNAMED, labels_complete=False) is by_some_labels


def test_selector_and_affinity_must_both_allow() -> None:
    """Neither a node selector nor an affinity makes up for the other."""
    yes, no = _affinity([_labels(_need("zone", "In", "a"))]), _affinity([_labels(_need("zone", "In", "b"))])

    assert allows({"nodeSelector": {"rack": "12"}, **yes}, _NODE) is True
    assert allows({"nodeSelector": {"rack": "13"}, **yes}, _NODE) is False
    assert allows({"nodeSelector": {"rack": "12"}, **no}, _NODE) is False


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"affinity": None}, id="null-affinity"),
        pytest.param({"affinity": {"nodeAffinity": None}}, id="null-node-affinity"),
        pytest.param(
            {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": None}}}, id="null-required"
        ),
        pytest.param({"affinity": ["x"]}, id="list"),
        pytest.param({"affinity": {"podAffinity": {}}}, id="another-affinity"),
        pytest.param(
            {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}},
            id="preferred",
        ),
    ],
)
def test_nothing_required_allows_every_node(spec: dict[str, Any]) -> None:
    """What is absent, null or only preferred rules no Node out."""
    assert allows(spec, _NODE) is True


@pytest.mark.parametrize(
    "term",
    [
        pytest.param(_labels("zone"), id="requirement-is-text"),
        pytest.param(_labels(None), id="requirement-is-null"),
        pytest.param({"matchExpressions": 1}, id="requirements-are-a-number"),
        pytest.param({"matchExpressions": {"key": "zone"}}, id="requirements-are-a-map"),
        pytest.param(_labels({"key": "zone", "operator": "In", "values": 1}), id="values-are-a-number"),
        pytest.param(_labels({"key": "zone", "operator": "In", "values": "abc"}), id="values-are-text"),
        pytest.param(_labels({"key": "zone", "operator": "In", "values": {"a": 1}}), id="values-are-a-map"),
        pytest.param(_labels({"key": "rack", "operator": "Gt", "values": [None]}), id="bound-is-null"),
        pytest.param(_labels({"key": "rack", "operator": "Gt", "values": "1"}), id="bounds-are-text"),
        pytest.param(_labels({"key": "rack", "operator": "Gt", "values": {"a": 1}}), id="bounds-are-a-map"),
        pytest.param(_labels({"key": ["zone"], "operator": "In", "values": ["a"]}), id="key-is-a-list"),
        pytest.param(_labels({}), id="empty-requirement"),
    ],
)
def test_malformed_requirements_match_nothing(term: Any) -> None:
    """A requirement that the API server would refuse is met by no Node, and never an exception."""
    assert allows(_affinity([term]), _NODE) is False
