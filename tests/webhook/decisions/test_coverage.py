"""Policies in the shadow about which the API server does not ask, or not all that they are for."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from support.service.reviews import rule

from policies.engine.match import EVERYTHING, LabelSelector, ResourceRule, SelectorRequirement
from policies.engine.rule import Hook, Rule
from policies.engine.ruleset import RuleSet
from webhook.configuration.rules import PolicyRules
from webhook.decisions.shadow import Unasked, beside, unasked

_PODS = ResourceRule(("CREATE",), ("",), ("pods",))
_PRODUCTION = LabelSelector((SelectorRequirement("stage", "In", ("production",)),))


def _policy(
    name: str, *resources: ResourceRule, group: str = "policies", namespaces: LabelSelector = EVERYTHING
) -> Rule:
    hook = Hook("validate", group, resources, "Fail", scope="*", namespaces=namespaces)
    return replace(rule(name=name), hooks=(hook,))


def _told(tried: Sequence[Rule], real: Sequence[Rule], *names: str) -> tuple[Unasked, ...]:
    policies = PolicyRules(tuple(tried), names=(*(policy.name for policy in tried), *names))
    in_force = RuleSet(real)
    return unasked(policies, beside(policies, RuleSet(tried), in_force), in_force)


@pytest.mark.parametrize(
    ("tried", "about"),
    [
        pytest.param(_policy("a", _PODS), "", id="as-in-force"),
        pytest.param(_policy("a", _PODS, group="policies-ignore"), "", id="of-a-name-in-force"),
        pytest.param(_policy("b", _PODS, group="policies-ignore"), "CREATE pods", id="of-another-failure-policy"),
        pytest.param(
            _policy("b", ResourceRule(("CREATE", "UPDATE"), ("",), ("pods", "nodes"))),
            "UPDATE pods; CREATE, UPDATE nodes",
            id="more-operations-and-kinds",
        ),
        pytest.param(
            _policy("b", ResourceRule(("*",), ("apps",), ("*",), ("v1",))),
            "CREATE, UPDATE, DELETE, CONNECT *.apps (v1)",
            id="another-group",
        ),
        pytest.param(
            _policy("b", *(ResourceRule(("CREATE",), ("apps",), (f"kind{number}",)) for number in range(7))),
            "; ".join(f"CREATE kind{number}.apps" for number in range(5)) + "; and 2 more",
            id="many",
        ),
    ],
)
def test_what_is_not_sent(tried: Rule, about: str) -> None:
    """What no policy in force with the same failurePolicy is for is named, operation by operation."""
    assert [policy.about for policy in _told([tried], [_policy("a", _PODS)])] == ([about] if about else [])


def test_namespaces() -> None:
    """If all policies in force are for some Namespaces only, no other is asked about; one in force for all suffices."""
    tried, real = _policy("b", _PODS), _policy("a", _PODS, namespaces=_PRODUCTION)
    abouts = [
        [policy.about for policy in _told(*sets)]
        for sets in (([tried], [real]), ([tried], [real, _policy("c", _PODS)]), ([real], [real]))
    ]

    assert abouts == [["requests of Namespaces without stage In (production)"], [], []]


def test_a_mutating_policy() -> None:
    """It is not asked at all."""
    assert [policy.text for policy in _told([], [], "ours")] == [
        "ours is not asked about anything: it is a mutating policy; see what it changes by check --diff, and replay"
    ]
