"""What was promised a moment ago."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from support.rackgangs import fitting, gang, job, question, rack

from policies.topology.choice.choice import Choice, ChoiceKey
from policies.topology.gang.promise import Promise
from webhook.cluster.inventory.answers import MOST, SECONDS, Answers

NOW = 1000.0
UNTIL = NOW + SECONDS


def noted(*keys: ChoiceKey, choice: Choice | None = None) -> Answers:
    """The answers to these questions, all of them now."""
    answers = Answers()
    for key in keys:
        answers.note(key, (choice or fitting(),) * len(key.gangs), NOW)
    return answers


def test_an_answer_is_a_promise_for_some_seconds() -> None:
    """The gang's Pods are promised their room where they fit, until its time is over."""
    answers = noted(question())

    assert list(answers.promises(NOW)) == [Promise(job(), rack("r1"), gang().members, UNTIL)]
    assert list(answers.promises(UNTIL)) == []
    assert len(answers) == 0


@pytest.mark.parametrize(
    ("key", "choice"),
    [
        pytest.param(question(dry_run=True), fitting(), id="dry run"),
        pytest.param(question(kept=(rack("r1"),)), fitting(), id="on record before"),
        pytest.param(question(), replace(fitting(), outcome="full"), id="full"),
        pytest.param(question(), Choice("unknown", "no inventory"), id="unknown"),
        pytest.param(question(), Choice("fits"), id="no domain"),
    ],
)
def test_what_promises_nothing(key: ChoiceKey, choice: Choice) -> None:
    """Nothing is remembered of an answer that takes no room, or whose room is counted already."""
    assert list(noted(key, choice=choice).promises(NOW)) == []


def test_preferred_domains_are_promised_too() -> None:
    """Without a required domain the nearest preferred one counts, where the Pods will be."""
    choice = Choice("fits", preferred=(rack("r2"), rack("r1")))

    assert [promise.address for promise in noted(question(), choice=choice).promises(NOW)] == [rack("r2")]


def test_the_newest_answer_for_a_workload_counts() -> None:
    """A workload that is asked for again is promised the room of the last answer alone."""
    answers = noted(question())
    answers.note(question(), (fitting("r2"),), NOW + 1)

    assert [(promise.address, promise.until) for promise in answers.promises(NOW + 1)] == [(rack("r2"), UNTIL + 1)]


def test_a_template_counts_once() -> None:
    """Where the gangs of a workload share a template, its Pods are promised room in the narrower domain alone."""
    wide, narrow = gang(path="a"), gang(path="b")
    wide = replace(wide, members=(*wide.members, *narrow.members))
    answers = Answers()
    answers.note(question(wide, narrow), (fitting("wide"), fitting("narrow")), NOW)

    assert [(p.address, [m.path for m in p.members]) for p in answers.promises(NOW)] == [
        (rack("narrow"), ["b"]),
        (rack("wide"), ["a"]),
    ]


def test_what_the_watch_shows_is_forgotten() -> None:
    """A workload that the watch shows has its promise on record, and that of others stays."""
    answers = noted(question(gang(job("a"))), question(gang(job("b"))))
    answers.shown(job("a"))

    assert [promise.key for promise in answers.promises(NOW)] == [job("b")]


def test_names_that_the_api_server_makes_up() -> None:
    """A workload whose made-up name is shown ends the oldest promise to one whose name began like that."""
    names = ("train-…1", "train-…2", "test-…3")
    answers = noted(*(question(gang(job(name))) for name in names))

    answers.shown(job("train-x7k2p"), "train-")
    assert [promise.key.name for promise in answers.promises(NOW)] == ["train-…2", "test-…3"]
    answers.shown(job("train-x7k2p", "another"), "train-")
    assert [promise.key.name for promise in answers.promises(NOW)] == ["train-…2", "test-…3"]


def test_equal_gangs_without_names() -> None:
    """Objects by generateName are told apart by their calls alone: fifty equal ones are promised room fifty times."""
    answers = noted(*(question(gang(job(f"train-…{uid}"))) for uid in range(50)))

    assert len(list(answers.promises(NOW))) == 50


def test_a_clock_that_was_set_back() -> None:
    """An answer holds no longer because the clock was set back; then it is forgotten."""
    answers = noted(question())

    assert [*answers.promises(NOW - 3600)] == []


def test_their_number_is_bounded() -> None:
    """Beyond a number the oldest of the namespace with the most are forgotten, and those of nobody else."""
    crowd = (question(gang(job(f"job-{number}"))) for number in range(MOST + 2))
    answers = noted(question(gang(job("first", "other"))), *crowd)

    assert len(answers) == MOST
    assert [promise.key for promise in answers.promises(NOW)][:2] == [job("first", "other"), job("job-3")]
