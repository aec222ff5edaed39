"""How often rules were evaluated, and how long that took."""

from __future__ import annotations

from support.builders import pod, request
from support.service.reviews import TODAY, Fixed, rule

from policies.engine import engine
from policies.engine.facts import StaticFacts
from policies.engine.ruleset import RuleSet
from webhook.measures import RuleTimes
from webhook.metrics import Metrics


def test_each_rule_is_counted_in_both_phases() -> None:
    """Every rule that runs counts once, also if it fails."""
    times = RuleTimes()
    ruleset = RuleSet([rule(name="tidy"), rule(Fixed(ValueError("x"), ValueError("x")), name="broken")])
    for run in (engine.validate, engine.mutate):
        times.begin()
        run(request(pod()), ruleset, StaticFacts(TODAY, lap=times))

    taken = times.take()
    assert {name: count for name, count, _ in taken} == {"tidy": 2, "broken": 2}
    assert all(seconds > 0 for _, _, seconds in taken)
    assert times.take() == []


def test_the_series_are_bounded() -> None:
    """Beyond so many rules the rest share one series."""
    metrics = Metrics()
    metrics.rules.times.add({f"rule-{number}": 0.5 for number in range(207)}, {})
    exposed = metrics.expose().decode()

    assert exposed.count("cks_admission_rule_seconds_total{") == 201
    assert 'cks_admission_rule_evaluations_total{rule="others"} 7.0\n' in exposed


def test_the_series_of_a_policy_ends_with_it() -> None:
    """Rules that are in force no more have no series."""
    metrics = Metrics()
    metrics.rules.times.add({"gone": 0.5, "kept": 0.25}, {})
    metrics.in_force({"kept", "new"})
    exposed = metrics.expose().decode()

    assert 'rule="gone"' not in exposed
    assert 'cks_admission_rule_seconds_total{rule="kept"} 0.25\n' in exposed
