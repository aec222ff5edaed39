"""Exceptions as documents: what they say, where each mistake is, and whether what they name is there."""

from datetime import date

import pytest
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


@pytest.mark.parametrize(
    ("old", "new", "problems"),
    [
        pytest.param(
            "  reason: OPS-1\n",
            "  reasons: OPS-1\n",
            [
                'policy.yaml:6:3: spec.reasons: unknown field "spec.reasons"\nhint: did you mean reason?',
            ],
            id="misspelt-field",
        ),
        pytest.param(
            "  until: 2026-12-31\n",
            "  until: 2026-12-31\n  match: {namespace: [a], kinds: [Pod]}\n",
            [
                (
                    'policy.yaml:8:11: spec.match.namespace: unknown field "spec.match.namespace"\n'
                    "hint: did you mean namespaces?"
                ),
            ],
            id="misspelt-field-of-match",
        ),
        pytest.param(
            "  policies: [labels]\n  reason: OPS-1\n  until: 2026-12-31\n",
            "  match: {}\n",
            [
                (
                    "policy.yaml:5:3: spec.policies: Required value\n"
                    "hint: name the policies or built-in rules that it is an exception from"
                ),
                (
                    "policy.yaml:5:3: spec.reason: Required value\n"
                    "hint: say why, best with a ticket: whoever audits it reads this"
                ),
                (
                    "policy.yaml:5:3: spec.until: Required value\n"
                    "hint: write the last day (UTC) on which it holds, as 2026-12-31"
                ),
            ],
            id="nothing-said",
        ),
        pytest.param(
            "{name: legacy}",
            "{labels: {a: b}}",
            [
                (
                    "policy.yaml:3:11: metadata.name: Required value\n"
                    "hint: name the exception: answers and metrics show it"
                ),
            ],
            id="no-name",
        ),
        pytest.param(
            "[labels]",
            "[]",
            [
                (
                    "policy.yaml:5:13: spec.policies: Required value\n"
                    "hint: name the policies or built-in rules that it is an exception from"
                ),
            ],
            id="no-policies",
        ),
        pytest.param(
            "[labels]",
            '[labels, "", labels]',
            [
                "policy.yaml:5:23: spec.policies[1]: Required value\nhint: write the name of a policy or built-in rule",
                'policy.yaml:5:26: spec.policies[2]: Duplicate value: "labels"\nhint: name each once',
            ],
            id="odd-policies",
        ),
        pytest.param(
            "[labels]",
            "labels",
            [
                ("policy.yaml:5:13: spec.policies: expected array, got string\nhint: write a list here"),
            ],
            id="wrong-type",
        ),
        pytest.param(
            "reason: OPS-1",
            "reason: '  '",
            [
                (
                    "policy.yaml:6:12: spec.reason: Required value\n"
                    "hint: say why, best with a ticket: whoever audits it reads this"
                ),
            ],
            id="blank-reason",
        ),
        pytest.param(
            "reason: OPS-1",
            "reason: 1234",
            [
                ("policy.yaml:6:11: spec.reason: expected string, got number\nhint: write a text, in quotes here"),
            ],
            id="reason-is-a-number",
        ),
        pytest.param(
            "2026-12-31",
            "31.12.2026",
            [
                (
                    'policy.yaml:7:10: spec.until: Invalid value: "31.12.2026": must be a date: YYYY-MM-DD\n'
                    "hint: write the last day (UTC) on which it holds, as 2026-12-31"
                ),
            ],
            id="another-form-of-date",
        ),
        pytest.param(
            "2026-12-31",
            '"20261231"',
            [
                (
                    'policy.yaml:7:11: spec.until: Invalid value: "20261231": must be a date: YYYY-MM-DD\n'
                    "hint: write the last day (UTC) on which it holds, as 2026-12-31"
                ),
            ],
            id="a-date-without-dashes",
        ),
        pytest.param(
            "2026-12-31",
            "2026-02-30",
            [
                (
                    'policy.yaml:7:10: spec.until: Invalid value: "2026-02-30": '
                    "is not a calendar date: day is out of range for month\n"
                    "hint: write the last day (UTC) on which it holds, as 2026-12-31"
                ),
            ],
            id="a-day-that-there-is-not",
        ),
        pytest.param(
            "  until: 2026-12-31\n",
            '  until: 2026-12-31\n  match: {users: [""], objectSelector: {matchLabels: {a b: c}}}\n',
            [
                (
                    "policy.yaml:8:20: spec.match.users[0]: Required value: an empty glob matches nothing\n"
                    "hint: write a name, or * for all"
                ),
                (
                    'policy.yaml:8:55: spec.match.objectSelector.matchLabels: Invalid value: "a b": name part '
                    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
                    "alphanumeric character "
                    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
                    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')\nhint: write a label key, as example.org/team"
                ),
            ],
            id="nothing-can-match",
        ),
    ],
)
def test_each_mistake_is_shown_at_its_place(old: str, new: str, problems: list[str]) -> None:
    """All that is wrong is told at once, each with its place, its field, what was found and what to do."""
    assert old in _SMALL
    loaded = _load(_SMALL.replace(old, new))

    assert ([str(problem) for problem in loaded.errors], loaded.exceptions) == (problems, ())


@pytest.mark.parametrize(
    ("old", "new", "warnings"),
    [
        pytest.param(
            "{name: legacy}",
            "{name: legacy, namespace: team}",
            [
                (
                    "policy.yaml:3:37: warning: metadata.namespace: an exception is in no namespace\n"
                    "hint: write it to spec.match.namespaces"
                )
            ],
            id="namespace",
        ),
        pytest.param(
            "  until: 2026-12-31\n",
            "  until: 2026-12-31\n  match: {kinds: [Pod, Deployment, NodePool, Service]}\n",
            [
                (
                    "policy.yaml:8:24: warning: spec.match.kinds[1]: there is no Deployment in the core group: "
                    "it matches nothing\nhint: did you mean Deployment.apps?"
                )
            ],
            id="kind-without-its-group",
        ),
    ],
)
def test_what_is_hardly_meant_is_warned_about(old: str, new: str, warnings: list[str]) -> None:
    """An exception that will do something else than its author thinks is read, with a warning."""
    loaded = _load(_SMALL.replace(old, new))

    assert ([str(problem) for problem in loaded.problems], len(loaded.exceptions)) == (warnings, 1)


@pytest.mark.parametrize(
    ("head", "problems"),
    [
        pytest.param(
            "apiVersion: cks-admission.dev/v1\nkind: PolicyExemption\n",
            [
                (
                    'policy.yaml:2:7: no matches for kind "PolicyExemption" in version "cks-admission.dev/v1"\n'
                    "hint: write apiVersion: cks-admission.dev/v1, kind: PolicyException"
                )
            ],
            id="another-kind-of-the-group",
        ),
        pytest.param(
            "apiVersion: cks-admission.dev/v2\nkind: PolicyException\n",
            [
                (
                    'policy.yaml:1:13: no matches for kind "PolicyException" in version "cks-admission.dev/v2"\n'
                    "hint: write apiVersion: cks-admission.dev/v1, kind: PolicyException"
                )
            ],
            id="another-version",
        ),
        pytest.param(
            "apiVersion: cks-admision.dev/v1\nkind: PolicyException\n",
            [
                (
                    'policy.yaml:1:13: no matches for kind "PolicyException" in version "cks-admision.dev/v1"\n'
                    "hint: write apiVersion: cks-admission.dev/v1, kind: PolicyException"
                )
            ],
            id="misspelt-group",
        ),
        pytest.param("apiVersion: example.org/v1\nkind: PolicyException\n", [], id="somebody-elses-kind"),
    ],
)
def test_what_is_nearly_an_exception_is_not_overlooked(head: str, problems: list[str]) -> None:
    """A document that its author takes for an exception is refused, and one of another group is left alone."""
    assert _problems(f"{head}metadata: {{name: legacy}}\n") == problems


def test_two_exceptions_of_one_name() -> None:
    """Names are what people find exceptions by, so the second of a name is an error that points to the first."""
    assert _problems(f"{_SMALL}---\n{_SMALL}") == [
        (
            'policy.yaml:11:18: metadata.name: Duplicate value: "legacy"\n'
            "hint: the first PolicyException of this name is at policy.yaml:3: rename one"
        )
    ]


@pytest.mark.parametrize(
    ("today", "warnings"),
    [
        pytest.param(None, [], id="no-date-known"),
        pytest.param(date(2026, 12, 16), [], id="15-days-before"),
        pytest.param(
            date(2026, 12, 17),
            [
                (
                    "policy.yaml:7:10: warning: spec.until: ends in 14 days: nothing passes by it after 2026-12-31\n"
                    "hint: fix what it is for, or extend it"
                )
            ],
            id="14-days-before",
        ),
        pytest.param(
            date(2026, 12, 30),
            [
                (
                    "policy.yaml:7:10: warning: spec.until: ends tomorrow: nothing passes by it after 2026-12-31\n"
                    "hint: fix what it is for, or extend it"
                )
            ],
            id="day-before",
        ),
        pytest.param(
            date(2026, 12, 31),
            [
                (
                    "policy.yaml:7:10: warning: spec.until: ends today: nothing passes by it after 2026-12-31\n"
                    "hint: fix what it is for, or extend it"
                )
            ],
            id="last-day",
        ),
        pytest.param(
            date(2027, 1, 1),
            [
                (
                    "policy.yaml:7:10: warning: spec.until: ended on 2026-12-31: it lets nothing pass\n"
                    "hint: delete it, or write a later day"
                )
            ],
            id="day-after",
        ),
    ],
)
def test_an_exception_that_ends_is_warned_about(today: date | None, warnings: list[str]) -> None:
    """A date makes no document unusable: what has ended or soon will is told, and read all the same."""
    loaded = _load(_SMALL, today)

    assert ([str(problem) for problem in loaded.warnings], loaded.errors, len(loaded.exceptions)) == (warnings, (), 1)


def test_rules_that_there_are_not() -> None:
    """Each name that is neither a rule's nor a policy's is told with its place, and the nearest name or all."""
    (written,) = _load(_SMALL.replace("[labels]", "[sunk, label, size]")).exceptions

    assert [str(problem) for problem in written.unknown(["labels", "sunk"])] == [
        'policy.yaml:5:20: spec.policies[1]: Not found: "label"\nhint: did you mean labels?',
        'policy.yaml:5:27: spec.policies[2]: Not found: "size"\nhint: there are labels, sunk',
    ]
