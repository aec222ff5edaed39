"""Which requests a rule is for, with Kubernetes' meaning of resource rules and label selectors."""

from itertools import product

import pytest
from support.builders import request, resource

from policies.engine.match import EVERYTHING, LabelSelector, ResourceRule, SelectorRequirement


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


def test_rules() -> None:
    """Operation, group, version and resource must all be among the rule's."""
    obj = resource("apps/v1", "Deployment")
    matching = [
        ResourceRule(("UPDATE",), ("apps",), ("deployments",), ("v1",)),
        ResourceRule(("CREATE", "UPDATE"), ("batch", "apps"), ("x", "deployments")),
        ResourceRule(("*",), ("*",), ("*",), ("*",)),
    ]
    others = [
        *(ResourceRule(operations, ("apps",), ("deployments",)) for operations in (("CREATE",), ())),
        ResourceRule(("UPDATE",), ("",), ("deployments",)),
        ResourceRule(("UPDATE",), ("apps",), ("deployments",), ("v1beta1",)),
        ResourceRule(("UPDATE",), ("apps",), ("statefulsets",)),
    ]

    assert [rule for rule in (*matching, *others) if rule.matches(request(obj, old=obj))] == matching


def test_requirements_must_all_hold() -> None:
    """A selector matches where every requirement holds, and without requirements everywhere."""
    both = LabelSelector((SelectorRequirement("a", "Exists"), SelectorRequirement("b", "NotIn", ("1",))))

    assert [both.matches({"a": "", "b": value}) for value in "21"] == [True, False]
    assert (both.matches({}), EVERYTHING.matches({}), EVERYTHING.matches({"a": "1"})) == (False, True, True)


def test_in_a_webhook_configuration() -> None:
    """Rules and selectors are written in the API's form, which allows values only where the operator has some."""
    rule = ResourceRule(("CREATE", "UPDATE"), ("",), ("pods", "pods/status"), ("v1",))
    selector = LabelSelector((SelectorRequirement("a", "In", ("1", "2")), SelectorRequirement("b", "DoesNotExist")))

    assert rule.to_json("Namespaced") == {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["pods", "pods/status"],
        "scope": "Namespaced",
    }
    expressions = [{"key": "a", "operator": "In", "values": ["1", "2"]}, {"key": "b", "operator": "DoesNotExist"}]
    assert (selector.to_json(), EVERYTHING.to_json()) == (
        {"matchExpressions": expressions},
        {"matchExpressions": []},
    )


_PATTERNS = ("*", "*/*", "*/status", "pods", "pods/*", "pods/status", "nodes", "nodes/status")
_LISTS = [*((pattern,) for pattern in _PATTERNS), ("pods", "nodes/status"), ("pods/status", "nodes"), ("*", "*/status")]
_WRITES = [
    request({"apiVersion": "v1", "kind": "Thing", "metadata": {}}, resource=name, sub_resource=sub, operation=operation)
    for name in ("pods", "nodes", "leases")
    for sub in ("", "status", "binding")
    for operation in ("CREATE", "DELETE")
]


def _is_accepted(patterns: tuple[str, ...]) -> bool:
    """Whether no pattern makes another one superfluous, as validateResources of k8s.io/kubernetes has it."""
    parts = [pattern.partition("/")[::2] for pattern in patterns]
    if "*/*" in patterns:
        return len(patterns) == 1
    if "*" in patterns and any(not sub for name, sub in parts if name != "*"):
        return False
    return not any(
        sub and ((f"{name}/*" in patterns and sub != "*") or (f"*/{sub}" in patterns and name != "*"))
        for name, sub in parts
    )


@pytest.mark.parametrize(("first", "second"), list(product(_LISTS, _LISTS)))
def test_the_intersection_of_rules(first: tuple[str, ...], second: tuple[str, ...]) -> None:
    """It matches exactly what both rules match, and the API server accepts it in a webhook configuration."""
    one = ResourceRule(("CREATE", "DELETE"), ("*",), first)
    other = ResourceRule(("*",), ("", "apps"), second, ("v1",))
    common = one.intersection(other)

    for asked in _WRITES:
        both = one.matches(asked) and other.matches(asked)
        assert (common is not None and common.matches(asked)) is both
    if common is not None:
        assert (common.operations, common.groups, common.versions) == (("CREATE", "DELETE"), ("", "apps"), ("v1",))
        assert _is_accepted(common.resources)


def test_rules_that_share_nothing() -> None:
    """Rules with different operations, groups, resources or versions have no intersection."""
    rule = ResourceRule(("CREATE",), ("",), ("pods",), ("v1",))
    others = [
        ResourceRule(("UPDATE",), ("",), ("pods",)),
        ResourceRule(("CREATE",), ("apps",), ("pods",)),
        ResourceRule(("CREATE",), ("",), ("pods/status",)),
        ResourceRule(("CREATE",), ("",), ("pods",), ("v2",)),
    ]

    assert [rule.intersection(other) for other in others] == [None] * 4
