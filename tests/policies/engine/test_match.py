"""Which requests a rule is for, with Kubernetes' meaning of resource rules and label selectors."""

import pytest
from support.builders import request, resource

from policies.engine.match import EVERYTHING, LabelSelector, Operator, ResourceRule, SelectorRequirement
from policies.engine.request import Operation


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        pytest.param("pods", {"pods"}, id="resource"),
        pytest.param("pods/status", {"pods/status"}, id="subresource"),
        pytest.param("pods/*", {"pods", "pods/status"}, id="resource-with-all-subresources"),
        pytest.param("*", {"pods", "nodes"}, id="all-resources"),
        pytest.param("*/status", {"pods/status", "nodes/status"}, id="one-subresource-of-all"),
        pytest.param("*/*", {"pods", "pods/status", "nodes", "nodes/status"}, id="all"),
        pytest.param("pod", set(), id="part-of-a-name"),
        pytest.param("pods/sta", set(), id="part-of-a-subresource"),
    ],
)
def test_resources(pattern: str, matched: set[str]) -> None:
    """A resource and its subresources are matched as the API server matches them: `pods` is not `pods/status`."""
    rule = ResourceRule(("*",), ("*",), (pattern,))
    requests = {
        name: request(resource("v1", kind), resource=name.partition("/")[0], sub_resource=name.partition("/")[2])
        for name, kind in [("pods", "Pod"), ("pods/status", "Pod"), ("nodes", "Node"), ("nodes/status", "Node")]
    }

    assert {name for name, asked in requests.items() if rule.matches(asked)} == matched


@pytest.mark.parametrize(
    ("rule", "matches"),
    [
        pytest.param(ResourceRule(("UPDATE",), ("apps",), ("deployments",), ("v1",)), True, id="exact"),
        pytest.param(
            ResourceRule(("CREATE", "UPDATE"), ("batch", "apps"), ("x", "deployments")), True, id="one-of-each"
        ),
        pytest.param(ResourceRule(("*",), ("*",), ("*",), ("*",)), True, id="anything"),
        pytest.param(ResourceRule(("CREATE",), ("apps",), ("deployments",)), False, id="another-operation"),
        pytest.param(ResourceRule(("UPDATE",), ("",), ("deployments",)), False, id="another-group"),
        pytest.param(ResourceRule(("UPDATE",), ("apps",), ("deployments",), ("v1beta1",)), False, id="another-version"),
        pytest.param(ResourceRule(("UPDATE",), ("apps",), ("statefulsets",)), False, id="another-resource"),
        pytest.param(ResourceRule((), ("apps",), ("deployments",)), False, id="no-operation"),
    ],
)
def test_rules(rule: ResourceRule, matches: bool) -> None:  # noqa: FBT001
    """Operation, group, version and resource must all be among the rule's."""
    obj = resource("apps/v1", "Deployment")

    assert rule.matches(request(obj, old=obj)) is matches


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE", "DELETE", "CONNECT"])
def test_all_operations(operation: Operation) -> None:
    """The operation `*` takes in all four."""
    assert ResourceRule(("*",), ("",), ("pods",)).matches(request(resource("v1", "Pod"), operation=operation)) is True


def test_a_rule_in_a_webhook_configuration() -> None:
    """The rule is written in the API's form, with every field and the scope given."""
    rule = ResourceRule(("CREATE", "UPDATE"), ("",), ("pods", "pods/status"), ("v1",))

    assert rule.to_json("Namespaced") == {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["pods", "pods/status"],
        "scope": "Namespaced",
    }


@pytest.mark.parametrize(
    ("operator", "values", "matched"),
    [
        pytest.param("In", ("a", "b"), {"a"}, id="in"),
        pytest.param("In", (), set(), id="in-nothing"),
        pytest.param("NotIn", ("a", "b"), {"c", "empty", "absent"}, id="not-in"),
        pytest.param("Exists", (), {"a", "c", "empty"}, id="exists"),
        pytest.param("DoesNotExist", (), {"absent"}, id="does-not-exist"),
    ],
)
def test_requirements(operator: Operator, values: tuple[str, ...], matched: set[str]) -> None:
    """Each operator decides as Kubernetes does; NotIn also holds where the key is absent."""
    requirement = SelectorRequirement("key", operator, values)
    labels = {"a": {"key": "a"}, "c": {"key": "c"}, "empty": {"key": ""}, "absent": {"other": "a"}}

    assert {name for name, given in labels.items() if requirement.matches(given)} == matched


def test_requirements_must_all_hold() -> None:
    """A selector matches where every requirement holds, and without requirements everywhere."""
    both = LabelSelector((SelectorRequirement("a", "Exists"), SelectorRequirement("b", "NotIn", ("1",))))

    assert (both.matches({"a": "", "b": "2"}), both.matches({"a": "", "b": "1"}), both.matches({})) == (
        True,
        False,
        False,
    )
    assert (EVERYTHING.matches({}), EVERYTHING.matches({"a": "1"})) == (True, True)


def test_a_selector_in_a_webhook_configuration() -> None:
    """The selector is written in the API's form, which allows values only where the operator has some."""
    selector = LabelSelector((SelectorRequirement("a", "In", ("1", "2")), SelectorRequirement("b", "DoesNotExist")))

    assert selector.to_json() == {
        "matchExpressions": [
            {"key": "a", "operator": "In", "values": ["1", "2"]},
            {"key": "b", "operator": "DoesNotExist"},
        ]
    }
    assert EVERYTHING.to_json() == {"matchExpressions": []}
