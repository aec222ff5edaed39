"""The clocks of reviews, and which policies count as slow."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable

import pytest
from support.service.reviews import NeedsNamespaces, rule

from policies.engine.facts import NamespaceKey
from policies.engine.interruption import Missing, PostponedError, TimeLimitError
from webhook import heavy
from webhook.heavy import SLICE, TIMES, Allowance, Slice, SlowPolicies
from webhook.measures import MOST, OTHERS
from webhook.metrics import Metrics


def _spin() -> None:
    """Use processor time without ever looking at a clock of a review."""
    until = time.thread_time() + 0.2
    while time.thread_time() < until:
        pass


def _spin_aside() -> None:
    other = threading.Thread(target=_spin)
    other.start()
    other.join()


@pytest.mark.parametrize("wait", [lambda: time.sleep(0.2), _spin_aside], ids=["sleep", "thread"])
def test_time_of_others_does_not_count(wait: Callable[[], None]) -> None:
    """A process that the kernel does not run for a while has not spent its slice, nor one whose other thread reads."""
    clock = Slice()

    def look() -> bool:
        wait()
        return clock()

    assert clock.run(look) is False


def test_the_slice_is_for_all_evaluations_of_a_review(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one evaluation has used is not there for the next one; what others use meanwhile is not counted."""
    time = 0.0
    monkeypatch.setattr(heavy, "thread_time", lambda: time)
    monkeypatch.setattr(heavy, "monotonic", lambda: time)
    clock = Slice()
    seen: list[object] = []
    for used, by_others in ((0.9 * SLICE, 1.0), (0.0, 1.0), (0.2 * SLICE, 0.0)):

        def look(used: float = used) -> None:
            nonlocal time
            time += used
            seen.append(clock())
            raise Missing(NamespaceKey("team"))

        try:
            clock.run(look)
        except (Missing, PostponedError) as error:
            seen.append(type(error))
        time += by_others

    assert seen == [False, Missing, False, Missing, PostponedError]


def test_an_allowance_ends_everything_that_follows() -> None:
    """After the end of the time each look says so with the same error, which knows the policy."""
    allowance = Allowance(3600)
    assert allowance() is False
    allowance.end()
    with pytest.raises(TimeLimitError) as caught:
        allowance()
    caught.value.blame("dear")
    with pytest.raises(TimeLimitError) as again:
        allowance()

    assert again.value is caught.value
    assert str(caught.value).startswith("it took longer than ")
    assert allowance.policy == "dear"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that the module sees, in a list of one."""
    now = [1000.0]
    monkeypatch.setattr(heavy, "monotonic", lambda: now[0])
    return now


def test_a_policy_is_skipped_after_it_was_slow_again_and_again(clock: list[float]) -> None:
    """Three times in a minute are too many; it is skipped for five minutes, and whoever is to know is told."""
    told: list[str] = []
    policies = SlowPolicies(Metrics(), skips=lambda: True, tell=told.append)
    seen = []
    for seconds in (0, 50, 50, 5):
        clock[0] += seconds
        policies.overtime("dear")
        seen.append((policies.skipped, len(told)))
    clock[0] += 300

    assert seen == [*[(frozenset(), 0)] * 3, (frozenset({"dear"}), 1)]
    assert (policies.skipped, told) == (frozenset(), ["dear"])


def test_a_change_of_policies_ends_the_skipping(clock: list[float]) -> None:
    """A policy that was mended is evaluated again, and has to be slow as often as the first time to be skipped."""
    policies = SlowPolicies(Metrics(), skips=lambda: True)
    for _ in range(TIMES):
        policies.overtime("dear")
    policies.forgive()
    clock[0] += 1
    policies.overtime("dear")

    assert policies.skipped == frozenset()


def test_a_policy_is_named_once_a_minute_and_kept(clock: list[float]) -> None:
    """Unless it is to be skipped it stays, and is told of at most once a minute; a dry run tells nobody."""
    told: list[str] = []
    policies = SlowPolicies(Metrics(), tell=told.append)
    for _ in range(20):
        policies.overtime("dear")
        clock[0] += 5
    assert (policies.skipped, told) == (frozenset(), ["dear", "dear"])

    for _ in range(TIMES):
        policies.overtime("other", dry_run=True)
    assert told == ["dear", "dear"]


def test_what_was_given_up_is_not_tried_again_at_once(clock: list[float]) -> None:
    """For some seconds the reviews of that tenant for that rule are not tried in the event loop."""
    policies = SlowPolicies(Metrics())
    rules = [rule(NeedsNamespaces(), name="dear"), rule(NeedsNamespaces(), name="cheap")]
    policies.postpone("dear", "team")

    assert policies.expects(rules, "team") is True
    assert policies.expects(rules[1:], "team") is False
    assert policies.expects(rules, "other") is False
    clock[0] += heavy.REMEMBERED
    assert policies.expects(rules, "team") is False


def test_the_memory_is_bounded(clock: list[float]) -> None:
    """Neither namespaces nor policies without end fill the memory or the metrics."""
    del clock
    metrics = Metrics()
    policies = SlowPolicies(metrics)
    for number in range(2000):
        policies.postpone("dear", f"team-{number}")
        policies.overtime(f"policy-{number}")
    exposed = metrics.expose().decode()

    assert policies.expects([rule(NeedsNamespaces(), name="dear")], "team-999") is True
    assert policies.expects([rule(NeedsNamespaces(), name="dear")], "team-1999") is False
    assert exposed.count("cks_admission_policy_overtime_total{") == MOST + 1
    metrics.in_force({"policy-1"})
    left = re.findall(r'cks_admission_policy_overtime_total\{policy="(.+)"\}', metrics.expose().decode())
    assert left == ["policy-1", OTHERS]
