"""Documents are read as a whole: what they say, where each mistake is, and whether they fit together."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec import json
from support.builders import TODAY
from support.policies import randompolicies
from support.policies.policydocuments import documents
from support.policies.refusedpolicies import Case, cases, without_own_words

from policies.admissionpolicy.documents.document import Document
from policies.admissionpolicy.documents.reader import Loaded, read
from policies.cel.environment import Dialect
from policies.engine.match import LabelSelector, SelectorRequirement
from policies.engine.rule import PolicyException
from policies.kubernetes.release import FINAL, NEWEST, RELEASES, Release

SMALL = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: small
spec:
  matchConstraints:
    resourceRules:
      - {operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}
  validations:
    - expression: object.metadata.name != ''
"""
SMALL_BINDING = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: small
spec:
  policyName: small
  validationActions: [Deny]
"""

HERE = Path(__file__).parent
CASES = yaml.safe_load((HERE / "documents.yaml").read_text(encoding="utf-8"))
WHOLE = yaml.safe_load((HERE / "whole.yaml").read_text(encoding="utf-8"))


def _name(case: dict[str, Any]) -> str:
    return str(case["name"])


def load(*texts: str, today: date | None = None) -> Loaded:
    """What documents of one file come to."""
    return read(documents("---\n".join(texts)), today)


def warnings(*texts: str) -> list[str]:
    """The warnings of documents of one file, as people read them."""
    return [str(problem) for problem in load(*texts).warnings]


@pytest.mark.parametrize("case", WHOLE, ids=_name)
def test_every_field_is_read(case: dict[str, Any]) -> None:
    """Nothing that a document says is lost, what it leaves out is filled in, and each expression knows its place."""
    loaded = load(case["text"])

    assert loaded.errors == ()
    assert json.decode(json.encode([*loaded.policies, *loaded.bindings])) == case["read"]


def _changed(text: str, changes: list[tuple[str, str]]) -> str:
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("case", CASES["mistakes"], ids=_name)
def test_each_mistake_is_shown_at_its_place(case: dict[str, Any]) -> None:
    """All that is wrong is told at once and once, at key, value or parent, with what to do."""
    loaded = load(_changed(SMALL, case.get("policy", [])), _changed(SMALL_BINDING, case.get("binding", [])))

    assert list(map(str, loaded.problems)) == case["problems"]


@pytest.mark.parametrize(
    ("written", "place", "excerpt"),
    [
        ("object.x ==\n  objekt.y", (13, 11), "object.x == objekt.y\n            ^"),
        ("|\n  object.x ==\n    objekt.y", (14, 13), "  objekt.y\n  ^"),
        (">-\n  object.x ==\n  objekt.y", (14, 11), "object.x == objekt.y\n            ^"),
        ('"object.x == \\\n  objekt.y"', (13, 11), "object.x == objekt.y\n            ^"),
        ("'''a'' == objekt.y'", (12, 29), "'a' == objekt.y\n       ^"),
    ],
    ids=["plain", "literal", "folded", "double quotes", "single quotes"],
)
def test_mistake_in_an_expression_is_shown_where_it_is_in_the_file(
    written: str, place: tuple[int, int], excerpt: str
) -> None:
    """Line and column are those of the file, however the expression is written, and a caret marks the place."""
    field = "    - message: x\n      reason: Invalid\n      expression: " + written.replace("\n", "\n        ")
    text = SMALL.replace("    - expression: object.metadata.name != ''", field)

    (problem,) = load(text, SMALL_BINDING).errors

    words = "undeclared reference to 'objekt' (in container '')"
    assert (problem.line, problem.column, problem.excerpt) == (*place, f"{words}\n{excerpt}")


def test_duplicate_fields_that_the_reader_knows_of_are_refused() -> None:
    """A key that is there twice is an error in the words of the strict decoder."""
    (document,) = documents(SMALL)
    twice = Document(
        value=document.value,
        name=document.name,
        places=document.places,
        keys=lambda _: (10, 7),
        duplicates=[("spec", "validations", 0, "expression")],
    )

    assert [str(problem) for problem in read([twice]).errors] == [
        (
            'policy.yaml:10:7: spec.validations[0].expression: duplicate field "spec.validations[0].expression"\n'
            "hint: keep one of them"
        )
    ]


def test_names_are_unique_within_a_kind() -> None:
    """A second policy of a name is refused, in whatever version, and told where the first is."""
    second = SMALL.replace("/v1", "/v1beta1")
    loaded = load(SMALL, second, SMALL_BINDING)

    assert [str(problem) for problem in loaded.problems] == [
        (
            'policy.yaml:15:9: metadata.name: Duplicate value: "small"\n'
            "hint: the first ValidatingAdmissionPolicy of this name is at policy.yaml:4: rename one"
        )
    ]
    assert [policy.origin.line for policy in loaded.policies] == [1]


def test_policy_without_a_binding_does_nothing() -> None:
    """That is a warning about documents that may be part of something, and an error where there are no others."""
    said = (
        "metadata.name: no ValidatingAdmissionPolicyBinding names this policy, and without one it does nothing\n"
        "hint: add a binding with this name as its policyName"
    )

    draft = f"policy.yaml:4:9: warning: {said}; until then it is judged here as if one denied"
    assert list(map(str, load(SMALL).problems)) == [draft]
    assert list(map(str, read(documents(SMALL), complete=True).errors)) == [f"policy.yaml:4:9: {said}"]


@pytest.mark.parametrize("case", CASES["versions"], ids=_name)
def test_versions_that_are_not_converted(case: dict[str, str]) -> None:
    """A rule that leaves out a version of a built-in group gets its objects as they are, and its author a warning."""
    rule, left_out = case["rule"], case.get("unconverted", "")
    text = SMALL.replace('apiGroups: [""], apiVersions: [v1]', rule)
    exact = text.replace("  matchConstraints:\n", "  matchConstraints:\n    matchPolicy: Exact\n")
    column = text.splitlines()[7].index("apiVersions: ") + len("apiVersions: ") + 1
    warning = (
        f"policy.yaml:8:{column}: warning: spec.matchConstraints.resourceRules[0].apiVersions: objects of {left_out} "
        "are not converted: expressions see them as they are sent\n"
        "hint: name that version as well, or write matchPolicy: Exact to leave it out"
    )

    assert warnings(text, SMALL_BINDING) == ([warning] if left_out else [])
    assert warnings(exact, SMALL_BINDING) == []


@pytest.mark.parametrize("stored", [False, True], ids=["new", "stored"])
@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
def test_reserved_names(release: Release, *, stored: bool) -> None:
    """Of names that only its own manifests may have, 1.36 warns, and later releases refuse them in new policies."""
    text = SMALL.replace("name: small", "name: small.static.k8s.io")
    binding = SMALL_BINDING.replace("policyName: small", "policyName: small.static.k8s.io")

    loaded = read(documents(f"{text}---\n{binding}"), dialect=Dialect(release, stored=stored))

    refused = release.reserves_static_names and not stored
    value = 'Invalid value: "small.static.k8s.io": ' if refused else ""
    words = (
        f"policy.yaml:4:9: {'' if refused else 'warning: '}metadata.name: {value}"
        'names ending with ".static.k8s.io" are reserved for static manifest-based configurations and cannot be '
        "managed via the API\nhint: choose another name"
    )
    assert [str(problem) for problem in loaded.problems] == [words]
    assert [each.name for each in RELEASES if each.reserves_static_names] == ["1.37", "1.38"]


def test_items_of_lists_are_documents() -> None:
    """Lists of the API and of kubectl, one inside of the other; only a list of one kind says it for its items."""
    nested = {"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "Namespace"}]}
    kind = {"apiVersion": "v1", "kind": "ConfigMapList", "items": [{"metadata": {"name": "a"}}]}
    named = {"apiVersion": "example.org/v1", "kind": "AllowList", "metadata": {"name": "a"}, "items": ["x"]}
    empty = {"apiVersion": "v1", "kind": "List", "items": None}
    value = {"apiVersion": "v1", "kind": "List", "items": [nested, kind, named, empty]}

    loaded = read([Document(value=value, name="a.json", places=lambda path: (len(path), 1))])

    assert [(document.value, document.line) for document in loaded.context] == [
        ({"apiVersion": "v1", "kind": "Namespace"}, 4),
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}, 4),
        (named, 2),
    ]
    assert loaded.problems == ()


def test_mistake_in_a_list_has_its_place_in_the_file() -> None:
    """The field is that of the item, as in the API server's words; the line is that of the file."""
    item = SMALL.replace("[CREATE]", "[create]").replace("\n", "\n    ").rstrip()
    text = f"apiVersion: v1\nkind: List\nitems:\n  - {item}\n"

    assert list(map(str, load(text).errors)) == [
        (
            "policy.yaml:11:27: spec.matchConstraints.resourceRules[0].operations[0]: "
            'Unsupported value: "create": supported values: "*", "CONNECT", "CREATE", "DELETE", "UPDATE"\n'
            "hint: did you mean CREATE?"
        )
    ]


@pytest.mark.parametrize("case", CASES["kinds"], ids=_name)
def test_document_of_no_known_kind_is_an_error(case: dict[str, str]) -> None:
    """A policy of a misspelt kind must not be taken for some other object."""
    loaded = load(case["head"])

    assert ([str(problem) for problem in loaded.problems], loaded.context) == ([case["problem"]], ())


@pytest.mark.parametrize(
    "head",
    [
        "apiVersion: v1\nkind: ConfigMap",
        "apiVersion: example.org/v1\nkind: ValidatingAdmissionPolicy",
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration",
    ],
)
def test_other_objects_are_context(head: str) -> None:
    """Parameters, Namespaces, CRDs and all else are handed on as they are."""
    loaded = load(head)

    assert ([document.value for document in loaded.context], loaded.problems) == (
        [document.value for document in documents(head)],
        (),
    )


@pytest.mark.parametrize("case", CASES["annotations"], ids=_name)
def test_annotations_of_this_service(case: dict[str, str]) -> None:
    """One that it does not know, or cannot read, is a warning: it would do nothing in silence."""
    annotation, said = case["annotation"], case.get("warning", "")
    text = SMALL.replace("name: small", f"name: small\n  annotations:\n    {annotation}")

    found = [warning for warning in warnings(text) if "annotations" in warning]
    key = annotation.partition(":")[0]
    place = f"policy.yaml:6:{32 if 'neither' in said else 5}: warning: metadata.annotations.{key}"
    assert found == ([f"{place}: {said}"] if said else [])


EXCEPTION = """\
apiVersion: cks-admission.dev/v1
kind: PolicyException
metadata: {name: legacy}
spec:
  policies: [labels]
  reason: OPS-1
  until: 2026-12-31
"""
FULL_EXCEPTION = """\
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


EXCEPTIONS = yaml.safe_load((HERE / "exceptions.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("text", "exception"),
    [
        pytest.param(EXCEPTION, PolicyException("legacy", ("labels",), "OPS-1", date(2026, 12, 31)), id="small"),
        pytest.param(
            FULL_EXCEPTION,
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
    loaded = load(text, today=TODAY)

    assert ([each.value for each in loaded.exceptions], loaded.problems, loaded.context) == ([exception], (), ())


@pytest.mark.parametrize("case", EXCEPTIONS["mistakes"], ids=_name)
def test_each_mistake_in_an_exception_is_shown_at_its_place(case: dict[str, Any]) -> None:
    """All that is wrong is told at once, each with its place, its field, what was found and what to do."""
    assert case["old"] in EXCEPTION
    loaded = load(EXCEPTION.replace(case["old"], case["new"]))

    assert ([str(problem) for problem in loaded.errors], loaded.exceptions) == (case["problems"], ())


@pytest.mark.parametrize("case", EXCEPTIONS["warnings"], ids=_name)
def test_what_is_hardly_meant_is_warned_about(case: dict[str, Any]) -> None:
    """An exception that will do something else than its author thinks is read, with a warning."""
    loaded = load(EXCEPTION.replace(case["old"], case["new"]))

    assert ([str(problem) for problem in loaded.problems], len(loaded.exceptions)) == (case["warnings"], 1)


@pytest.mark.parametrize("case", EXCEPTIONS["kinds"], ids=_name)
def test_what_is_nearly_an_exception_is_not_overlooked(case: dict[str, Any]) -> None:
    """A document that its author takes for an exception is refused, and one of another group is left alone."""
    loaded = load(f"{case['head']}metadata: {{name: legacy}}\n")

    assert list(map(str, loaded.problems)) == case.get("problems", [])


def test_two_exceptions_of_one_name() -> None:
    """Names are what people find exceptions by, so the second of a name is an error that points to the first."""
    assert list(map(str, load(EXCEPTION, EXCEPTION).problems)) == [
        (
            'policy.yaml:11:18: metadata.name: Duplicate value: "legacy"\n'
            "hint: the first PolicyException of this name is at policy.yaml:3: rename one"
        )
    ]


@pytest.mark.parametrize("case", EXCEPTIONS["ends"], ids=_name)
def test_an_exception_that_ends_is_warned_about(case: dict[str, Any]) -> None:
    """A date makes no document unusable: what has ended or soon will is told, and read all the same."""
    loaded = load(EXCEPTION, today=case.get("today"))

    assert [str(problem) for problem in loaded.warnings] == case.get("warnings", [])
    assert (loaded.errors, len(loaded.exceptions)) == ((), 1)


def test_rules_that_there_are_not() -> None:
    """Each name that is neither a rule's nor a policy's is told with its place, and the nearest name or all."""
    (written,) = load(EXCEPTION.replace("[labels]", "[sunk, label, size]")).exceptions

    assert [str(problem) for problem in written.unknown(["labels", "sunk"])] == [
        'policy.yaml:5:20: spec.policies[1]: Not found: "label"\nhint: did you mean labels?',
        'policy.yaml:5:27: spec.policies[2]: Not found: "size"\nhint: there are labels, sunk',
    ]


_REFUSED = cases(NEWEST)
TOLD = {
    f"{release.name}: {name}": (case, release)
    for release in FINAL
    for name, case in cases(release).items()
    if case.says != _REFUSED[name].says or release == NEWEST
}


@pytest.mark.parametrize(("case", "release"), TOLD.values(), ids=TOLD)
def test_words_are_those_of_the_api_server(case: Case, release: Release) -> None:
    """Each field that is wrong is named, in the API server's order and words, and nothing else."""
    document = Document(value=case.document, name="policy.yaml", places=lambda _: (1, 1))

    found = [problem.text for problem in read([document], dialect=Dialect(release)).errors]

    told = [text for text in found if ": Not found: " not in text]
    assert [without_own_words(text) for text in told] == [without_own_words(text) for text in case.says]


def test_table_is_large() -> None:
    """The table has grown to what it is for a reason: nothing falls out of it unseen."""
    refused = [name for name, case in _REFUSED.items() if case.says]

    assert len(refused) >= 170


def test_no_document_is_too_strange_to_be_read() -> None:
    """Whatever stands in a document, reading it ends in problems or in a value, never in an exception."""
    found = [
        read([Document(value=document, name="policy.yaml", places=lambda _: (1, 1))])
        for document in randompolicies.documents(seed=7, count=500)
    ]

    kinds = {(bool(loaded.errors), bool(loaded.policies or loaded.bindings)) for loaded in found}
    assert kinds == {(True, False), (True, True), (False, True)}  # with both: a binding whose policy is missing
