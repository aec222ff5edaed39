"""The rules in force and the exceptions from them: which requests they are about, with Kubernetes' meaning of rules."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.builders import TODAY, Json, deployment, pod, request, resource
from support.tables import rows

from policies.engine.match import EVERYTHING, LabelSelector, ResourceRule, SelectorRequirement
from policies.engine.rule import MEMORY, Action, Hook, Phase, PolicyException, Rule, RuleSet, longest
from policies.engine.safety import Safety

_ALWAYS = {"name": "moving", "rules": ("labels",), "reason": "migration", "until": TODAY}
_DEPLOYMENT = request(resource("apps/v1", "Deployment", name="web-1"), namespace="team-a", user="carol")
_POD = request(pod(), namespace="team-a", user="carol", name="")
_NODE = request(resource("v1", "Node", name="n1"), user="carol")


@rows(__file__, "covers")
def test_what_an_exception_covers(limits: dict[str, tuple[str, ...]], covered: list[str]) -> None:
    """Every limit that is given must hold, each by one of its globs; one that is empty holds for everything."""
    exception = PolicyException(**{**_ALWAYS, **limits})  # type: ignore[arg-type]
    asked = {"deployment": _DEPLOYMENT, "unnamed pod": _POD, "node": _NODE}

    assert [name for name, each in asked.items() if exception.concerns("labels", each)] == covered


def test_a_namespace_is_in_no_namespace() -> None:
    """An exception for a Namespace's objects says nothing about the Namespace itself, which goes by its name."""
    inside = PolicyException("moving", ("labels",), "migration", TODAY, namespaces=("team-a",))
    itself = PolicyException("moving", ("labels",), "migration", TODAY, kinds=("Namespace",), names=("team-a",))
    asked = request(resource("v1", "Namespace", name="team-a"), user="carol")

    assert (inside.concerns("labels", asked), itself.concerns("labels", asked)) == (False, True)


def test_an_exception_by_labels() -> None:
    """The selector is met by the object's labels or by those that it had, as Kubernetes takes an objectSelector."""
    exception = PolicyException("moving", ("labels",), "x", TODAY, object_selector=_SELECTOR)
    old, plain = pod(labels={"old": "yes"}), pod()
    covered = [request(old), request(plain, old=old), request(old, old=plain), request(old=old, operation="DELETE")]
    exec_ = request({"kind": "PodExecOptions"}, operation="CONNECT")
    others = [request(pod(labels={"old": "no"})), request(plain), exec_]

    assert [asked for asked in (*covered, *others) if exception.concerns("labels", asked)] == covered


_SELECTOR = LabelSelector((SelectorRequirement("old", "In", ("yes",)),))
_SOME = st.builds(
    PolicyException,
    name=st.sampled_from("abc"),
    rules=st.sampled_from([("labels",), ("sunk",), ("labels", "sunk")]),
    reason=st.just("x"),
    until=st.dates(date(2026, 2, 27), date(2026, 3, 3)),
    users=st.sampled_from([(), ("carol",), ("dave",)]),
)


@given(exceptions=st.lists(_SOME, max_size=5), order=st.randoms())
def test_one_exception_that_holds_is_enough(exceptions: list[PolicyException], order: Random) -> None:
    """The exception that counts holds if any that is about the request does, in whatever order they are given."""
    shuffled = order.sample(exceptions, len(exceptions))
    found = longest(shuffled, "labels", _POD)

    about = [exception for exception in exceptions if exception.concerns("labels", _POD)]
    assert (found in about) if about else found is None
    assert (found is not None and found.holds(TODAY)) is any(exception.holds(TODAY) for exception in about)


_PODS = ResourceRule(("CREATE",), ("",), ("pods",))
_DEPLOYMENTS = ResourceRule(("CREATE", "UPDATE"), ("apps",), ("deployments",))


def _hook(phase: Phase, group: str, *resources: ResourceRule) -> Hook:
    return Hook(phase, group, resources, "Ignore")


def _rule(name: str, *hooks: Hook, action: Action = "deny", reads: Iterable[str] = ()) -> Rule:
    return Rule(name, hooks, action, frozenset(reads))


_BOTH = _rule("both", _hook("validate", "a", _PODS), _hook("validate", "b", _DEPLOYMENTS), _hook("mutate", "a", _PODS))
_FIRST = _rule("first", _hook("validate", "b", _DEPLOYMENTS, _PODS), reads=["metadata"])
_OFF = _rule("off", _hook("validate", "a", _PODS), _hook("mutate", "c", _PODS), action="off", reads=["data"])


def test_selecting() -> None:
    """The rules with a hook for phase, group and resource are selected in order, each once, and again the same."""
    rules = RuleSet([_FIRST, _OFF, _BOTH])
    selected: dict[tuple[Phase, str | None], tuple[list[Rule], list[Rule]]] = {
        ("validate", None): ([_FIRST, _BOTH], [_FIRST, _BOTH]),
        ("validate", "a"): ([_BOTH], []),
        ("validate", "b"): ([_FIRST], [_FIRST, _BOTH]),
        ("mutate", None): ([_BOTH], []),
        ("mutate", "b"): ([], []),
        ("validate", "x"): ([], []),
    }
    for (phase, group), expected in [*selected.items(), *selected.items()]:
        assert tuple(list(rules.select(phase, request(obj), group)) for obj in (pod(), deployment())) == expected


def test_what_was_selected_before_is_not_mixed_up() -> None:
    """Requests that differ in one part only, the group of hooks and the operation among them, are told apart."""
    rules = RuleSet([_BOTH])
    asked = [
        request(pod()),
        request(pod(), old=pod()),
        request(pod(), sub_resource="status"),
        request(pod(), resource="podtemplates"),
        request({**pod(), "apiVersion": "example.org/v1"}),
        request(deployment()),
    ]

    found = [[rule.name for rule in rules.select("validate", each)] for each in asked]

    assert found == [["both"], [], [], [], [], ["both"]]


def test_more_requests_than_are_remembered() -> None:
    """A cluster with very many resources gets the right rules for each of them, seen before or not."""
    rules = RuleSet([_rule("things", _hook("validate", "a", ResourceRule(("*",), ("",), ("things",))))])
    others = [request(pod(), resource=f"others{number}") for number in range(MEMORY + 10)]
    things = request(pod(), resource="things")

    assert [each for each in others if rules.select("validate", each)] == []
    assert [rule.name for rule in rules.select("validate", things)] == ["things"]


def test_what_the_rules_read_and_where_they_are_asked() -> None:
    """Fields and groups are those of the rules in force; a rule that is off counts for nothing."""
    rules = RuleSet([_FIRST, _OFF, _BOTH])

    assert (rules.groups("validate"), rules.groups("mutate")) == (frozenset({"a", "b"}), frozenset({"a"}))
    assert (rules.reads("validate", None), rules.reads("mutate", "a")) == (frozenset({"metadata"}), frozenset())
    assert (RuleSet([]).reads("validate", None), RuleSet([]).groups("mutate")) == (frozenset(), frozenset())


def test_what_is_spared() -> None:
    """Of what is spared only rules run with a hook that is everywhere and matches; of all else, all that match."""
    everywhere = replace(_hook("validate", "b", _PODS), everywhere=True)
    guard = _rule("guard", everywhere)
    mixed = _rule("mixed", _hook("validate", "a", _PODS, _DEPLOYMENTS), everywhere)
    rules = RuleSet([_BOTH, guard, mixed], safety=Safety("kube-system"))

    def found(obj: Json, namespace: str, group: str | None = None) -> list[str]:
        return [rule.name for rule in rules.turn("validate", request(obj, namespace=namespace), group).rules]

    spared = [found(pod(), "kube-system", group) for group in (None, "a", "b")]
    assert found(pod(), "team") == ["both", "guard", "mixed"]
    assert (spared, found(deployment(), "kube-system")) == ([["guard", "mixed"], [], ["guard", "mixed"]], [])


def test_two_rules_of_one_name() -> None:
    """Names are unique, since exceptions and decisions go by them."""
    with pytest.raises(ValueError, match=r"^two rules are called 'first'; names must be unique$"):
        RuleSet([_FIRST, _BOTH, _rule("first")])


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


def test_matching_rules() -> None:
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
    assert selector.to_json() == {"matchExpressions": expressions}
    assert EVERYTHING.to_json() == {"matchExpressions": []}


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
