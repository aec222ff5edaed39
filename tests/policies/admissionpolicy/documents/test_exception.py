"""Exceptions as documents: what they say, where each mistake is, and whether what they name is there."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.builders import TODAY
from support.policies.policydocuments import documents

from policies.admissionpolicy.documents.reader import Loaded, read
from policies.engine.match import LabelSelector, SelectorRequirement
from policies.engine.rule import PolicyException

_SMALL = """\
apiVersion: cks-admission.dev/v1
kind: PolicyException
metadata: {name: legacy}
spec:
  policies: [labels]
  reason: OPS-1
  until: 2026-12-31
"""
_FULL = """\
apiVersion: cks-admission.dev/v1
kind: PolicyException
metadata: {name: legacy-trainer}
spec:
  policies: [interruptable-value, labels]
  reason: |
    OPS-1234: moved off
    by end of year
  until: "2026-12-31"
  match:
    namespaces: [team-a, "team-*"]
    kinds: [Pod, Deployment.apps]
    names: [train-?]
    users: [carol]
    groups: [dev]
    objectSelector: {matchLabels: {legacy: "yes"}, matchExpressions: [{key: x, operator: Exists}]}
"""


_CASES = yaml.safe_load((Path(__file__).parent / "exceptions.yaml").read_text(encoding="utf-8"))


def _name(case: dict[str, Any]) -> str:
    return str(case["name"])


def _load(text: str, today: date | None = None) -> Loaded:
    return read(documents(text), today)


def _problems(text: str, today: date | None = None) -> list[str]:
    return [str(problem) for problem in _load(text, today).problems]


@pytest.mark.parametrize(
    ("text", "exception"),
    [
        pytest.param(_SMALL, PolicyException("legacy", ("labels",), "OPS-1", date(2026, 12, 31)), id="small"),
        pytest.param(
            _FULL,
            PolicyException(
                "legacy-trainer",
                ("interruptable-value", "labels"),
                "OPS-1234: moved off\nby end of year",
                date(2026, 12, 31),
                namespaces=("team-a", "team-*"),
                kinds=("Pod", "Deployment.apps"),
                names=("train-?",),
                users=("carol",),
                groups=("dev",),
                object_selector=LabelSelector(
                    (SelectorRequirement("legacy", "In", ("yes",)), SelectorRequirement("x", "Exists"))
                ),
            ),
            id="full",
        ),
    ],
)
def test_every_field_of_an_exception_is_read(text: str, exception: PolicyException) -> None:
    """Nothing that a document says is lost, and what it leaves out matches everything."""
    loaded = _load(text, TODAY)

    assert ([each.value for each in loaded.exceptions], loaded.problems, loaded.context) == ([exception], (), ())


@pytest.mark.parametrize("case", _CASES["mistakes"], ids=_name)
def test_each_mistake_is_shown_at_its_place(case: dict[str, Any]) -> None:
    """All that is wrong is told at once, each with its place, its field, what was found and what to do."""
    assert case["old"] in _SMALL
    loaded = _load(_SMALL.replace(case["old"], case["new"]))

    assert ([str(problem) for problem in loaded.errors], loaded.exceptions) == (case["problems"], ())


@pytest.mark.parametrize("case", _CASES["warnings"], ids=_name)
def test_what_is_hardly_meant_is_warned_about(case: dict[str, Any]) -> None:
    """An exception that will do something else than its author thinks is read, with a warning."""
    loaded = _load(_SMALL.replace(case["old"], case["new"]))

    assert ([str(problem) for problem in loaded.problems], len(loaded.exceptions)) == (case["warnings"], 1)


@pytest.mark.parametrize("case", _CASES["kinds"], ids=_name)
def test_what_is_nearly_an_exception_is_not_overlooked(case: dict[str, Any]) -> None:
    """A document that its author takes for an exception is refused, and one of another group is left alone."""
    assert _problems(f"{case['head']}metadata: {{name: legacy}}\n") == case.get("problems", [])


def test_two_exceptions_of_one_name() -> None:
    """Names are what people find exceptions by, so the second of a name is an error that points to the first."""
    assert _problems(f"{_SMALL}---\n{_SMALL}") == [
        (
            'policy.yaml:11:18: metadata.name: Duplicate value: "legacy"\n'
            "hint: the first PolicyException of this name is at policy.yaml:3: rename one"
        )
    ]


@pytest.mark.parametrize("case", _CASES["ends"], ids=_name)
def test_an_exception_that_ends_is_warned_about(case: dict[str, Any]) -> None:
    """A date makes no document unusable: what has ended or soon will is told, and read all the same."""
    loaded = _load(_SMALL, case.get("today"))

    assert [str(problem) for problem in loaded.warnings] == case.get("warnings", [])
    assert (loaded.errors, len(loaded.exceptions)) == ((), 1)


def test_rules_that_there_are_not() -> None:
    """Each name that is neither a rule's nor a policy's is told with its place, and the nearest name or all."""
    (written,) = _load(_SMALL.replace("[labels]", "[sunk, label, size]")).exceptions

    assert [str(problem) for problem in written.unknown(["labels", "sunk"])] == [
        'policy.yaml:5:20: spec.policies[1]: Not found: "label"\nhint: did you mean labels?',
        'policy.yaml:5:27: spec.policies[2]: Not found: "size"\nhint: there are labels, sunk',
    ]
