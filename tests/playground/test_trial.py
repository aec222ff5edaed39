"""The playground says what the verbs say and shows all values; its links and suites hold a trial."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from support.policies.policydocuments import policy

from policies.cel.explain import Branch
from webhook.cli.main import main
from webhook.cli.output import InputError
from webhook.playground import trial as trials
from webhook.playground.trial import Answer, Mark, Row, Trial, answer, details, from_link, placement, suite

_VARIABLE = 'variables: [{name: bare, expression: "object.spec.containers.filter(c, !has(c.resources))"}]'
POLICY = policy("limits", "variables.bare.size() == 0", "Give it resources.").replace(
    "  validations:", f"  {_VARIABLE}\n  validations:"
)
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: main, image: web}]}\n"
# Those that are about texts that cannot be read.
UNREADABLE = {"Mistake: an expression on a missing field"}


def _judging(expression: str) -> str:
    """The policy with another validation."""
    return POLICY.replace("variables.bare.size() == 0", expression)


def everything(trial: Trial) -> Answer:
    """The answer with its details."""
    return details(trial, answer(trial))


def test_everything_about_a_refusal() -> None:
    """The API server's words, each expression with its value, type, cost and parts, and what another release says."""
    said = everything(Trial(POLICY.replace("!has(c.resources)", "size(c.resources) == 0"), POD))

    assert (said.verdict, said.lines, said.releases) == (
        "refused",
        (
            "Pod default/web: refused",
            "ValidatingAdmissionPolicy 'limits' with binding 'limits' denied request: Give it resources.",
            '  spec.containers[0].resources: size(c.resources) == 0 is true (container "main"; size(c.resources) is 0)',
        ),
        {"1.36": "", "1.38": ""},
    )
    added = [line for line in said.diff.splitlines() if line[0] == "+"]
    assert added == ["+++ as admitted", "+  - key: is_cpu_compute", "+    operator: Exists", "+    effect: NoSchedule"]
    assert [(mark.editor, mark.line, mark.level) for mark in said.marks] == [
        ("object", 4, "error"),
        ("policy", 7, "lint"),  # a field that may be missing
        ("policy", 8, "lint"),  # a message without a remedy
    ]
    assert [(row.path, row.line, row.type, row.cost) for row in said.rows] == [
        ("limits: spec.variables[0]", 7, "list", 21),
        ("limits: spec.validations[0]", 8, "bool", 25),
    ]
    filtered, validation = said.rows
    assert ('"name": "main"' in filtered.value, validation.value) == (True, "false")
    assert validation.tree is not None
    assert (validation.tree.outcome, validation.tree.parts[0].outcome) == ("is false", "is 1")


def test_the_parts_of_an_expression() -> None:
    """Elements have their names, a variable has its own parts, and what was not evaluated is not there."""
    text = "object.spec.containers.all(c, c.name == 'x' ? c.none == 1 : c.image == 'y')"

    (tree,) = (row.tree for row in everything(Trial(_judging(text), POD)).rows if row.text == text)

    assert tree is not None
    assert tree.parts[1:] == (
        Branch(
            "container \"main\": c.name == 'x' ? c.none == 1 : c.image == 'y'",
            "is false",
            (
                Branch("c.name == 'x'", "is false", (Branch("c.name", 'is "main"'),)),
                Branch("c.image == 'y'", "is false", (Branch("c.image", 'is "web"'),)),
            ),
        ),
    )


def test_values_are_those_of_the_release() -> None:
    """Of the release that is chosen, as is the verdict; what the other one says is beside it."""
    text = "object.spec.orValue({}).size() > 0"
    by_release = {name: everything(Trial(_judging(text), POD, release=name)) for name in ("1.36", "1.37")}

    assert {
        name: (said.verdict, said.rows[-1].value, {other for other, words in said.releases.items() if words})
        for name, said in by_release.items()
    } == {
        "1.36": ("admitted", "true", {"1.37", "1.38"}),
        "1.37": ("refused", "failed: no such overload", {"1.36"}),
    }


def test_one_expression() -> None:
    """A text that is no document is an expression, and has its value and cost, or a mark where it is wrong."""
    good, bad = (answer(Trial(text, POD)) for text in ("1 + size(object.spec.containers)", "objekt.x"))

    assert (good.verdict, good.lines) == ("admitted", ("2",))
    assert good.rows == (Row("expression", "1 + size(object.spec.containers)", 1, "2", "int", 5),)
    words = "undeclared reference to 'objekt' (in container '')\n  objekt.x\n  ^\n  hint: did you mean 'object'?"
    assert (bad.verdict, bad.rows, bad.marks) == ("unreadable", (), (Mark("policy", 1, 1, "error", words),))


def test_a_mistake_is_marked_where_it_is() -> None:
    """In the editor of the text that cannot be read, at its line."""
    wrong = [answer(Trial(POLICY.replace("validations:", "validation:"), POD)), answer(Trial(POLICY, "kind: [\n"))]

    assert [(one.verdict, [(mark.editor, mark.line, mark.column) for mark in one.marks]) for one in wrong] == [
        ("unreadable", [("policy", 8, 3)]),
        ("unreadable", [("object", 2, 1)]),
    ]


@pytest.mark.parametrize(("name", "trial"), trials.gallery()[:23], ids=[name for name, _ in trials.gallery()[:23]])
def test_examples_are_answered(name: str, trial: Trial) -> None:
    """Each beginning and each mistake has an answer, and a mistake is refused or warned of."""
    said = answer(trial)

    assert (said.verdict == "unreadable") == (name in UNREADABLE)
    if name.startswith("Mistake"):
        assert said.verdict != "admitted" or "Warning: " in "\n".join(said.lines)


def test_examples_have_names_of_their_own() -> None:
    """People choose an example by its name."""
    names = [name for name, _ in trials.gallery()]

    assert len(set(names)) == len(names) > 100


@given(st.builds(Trial, policy=st.text(), object=st.text(), labels=st.text(), release=st.just("1.36")))
def test_a_link_holds_a_trial(trial: Trial) -> None:
    """Whatever stands in the editors, the link leads back to it."""
    assert from_link(trial.link()) == trial


@pytest.mark.parametrize("fragment", ["", "x", "eJw", "!!!!", "eJyrVkrOT0lVslJQ8kjNyclXCM8vyklRqgUAUAcG5Q"])
def test_a_link_that_holds_none(fragment: str) -> None:
    """A damaged link is an error, not a page that ends."""
    with pytest.raises(ValueError, match="the link holds no trial"):
        from_link(fragment)


@pytest.mark.parametrize("trial", [Trial(POLICY, POD), *(trial for _, trial in trials.gallery()[3:12:4])])
def test_a_trial_becomes_a_suite(trial: Trial, tmp_path: Path) -> None:
    """`cks-admission test` passes it, and says so."""
    (tmp_path / "policy.yaml").write_text(trial.policy, encoding="utf-8")
    (tmp_path / "a.suite.yaml").write_text(suite(trial), encoding="utf-8")

    done = CliRunner().invoke(main, ["test", str(tmp_path)])

    assert (done.exit_code, done.stdout.splitlines()[-1:]) == (0, ["1 of 1 cases passed in 1 suite"])


@pytest.mark.parametrize(
    ("trial", "words"),
    [
        (Trial(POLICY), "object.yaml: no objects found"),
        (Trial(POLICY.replace("validations:", "validation:"), POD), 'unknown field "spec.validation"'),
        (Trial(POLICY, POD, labels="team"), "--namespace-labels team: write KEY=VALUE"),
    ],
)
def test_a_trial_that_becomes_no_suite(trial: Trial, words: str) -> None:
    """What cannot be used is named."""
    with pytest.raises(InputError, match=re.escape(words)):
        suite(trial)


def test_where_a_gang_goes() -> None:
    """The words of `topology explain` and `place`, once each, and the picture of the Nodes."""
    lines, picture = placement(trials.gallery()[1][1])

    assert any(line.startswith("    gate: waits: No superpod has room for 4 Pods") for line in lines)
    assert any("superpod 3: 3 Nodes, 10 of 24 GPUs free" in line for line in lines)
    assert picture.startswith("<svg")
    assert placement(Trial(object=POD)) == (
        ("Error: nodes.yaml: no Nodes found; kubectl get nodes,pods -A -o json prints them with their Pods",),
        "",
    )
