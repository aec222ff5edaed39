"""The policies in force after each change of their sources: what is taken, what is refused and why."""

from collections.abc import Mapping
from datetime import date
from unittest.mock import Mock

import pytest
from support.policies.policydocuments import documents

from policies.admissionpolicy.documents.reader import parts, together
from webhook.sources import policyset
from webhook.sources.policyset import EMPTY, Content, PolicySet, updated

_TODAY = date(2026, 11, 21)
_POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: NAME}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  validations: [{expression: "EXPRESSION"}]
"""
_BINDING = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: NAME}
spec: {policyName: NAME, validationActions: [Deny]}
"""


def _policy(name: str, expression: str = "true") -> str:
    return _POLICY.replace("NAME", name).replace("EXPRESSION", expression)


def _bound(name: str, expression: str = "true") -> str:
    return f"{_policy(name, expression)}---\n{_BINDING.replace('NAME', name)}"


def _content(text: str, source: str) -> Content:
    found = [part for document in documents(text, f"{source}.yaml") for part in parts(document)]
    return Content(text, tuple(found))


def _after(current: PolicySet, **texts: str) -> PolicySet:
    return updated(current, {source: _content(text, source) for source, text in texts.items()}, _TODAY)


def _in_force(found: PolicySet) -> Mapping[str, str]:
    """The policies in force with their expression."""
    return {policy.name: policy.validations[0].expression.text for policy in found.files.loaded.policies}


_HISTORIES = {
    "without errors the set is what all sources hold": (["a:first b:second"], "first=true second=true", ""),
    "what breaks keeps what it had, others follow their changes": (
        ["a:first b:second", "a:first=tru b:second=false"],
        "first=true second=false",
        "a",
    ),
    "a new source with errors is left out": (["a:first b:second=1"], "first=true", "b"),
    "whoever had a name keeps it": (["b:one", "a:one=false b:one"], "one=true", "a"),
    "and changes it freely": (["b:one", "a:one b:one", "a:one=1==1 b:one=false"], "one=false", "a"),
    "what a binding needs does not go": (["a:one- b:-one", "b:-one"], "one=true", "a"),
    "and comes again": (["a:one- b:-one", "b:-one", "a:one-=false b:-one"], "one=false", ""),
    "nobody else is kept back by that": (
        ["a:one- b:-one c:third", "b:-one c:third=false d:fourth"],
        "third=false fourth=true one=true",
        "a",
    ),
    "nor where it is unknown who removed it": (
        ["a:one-,two b:-one c:third", "a:two b:-one c:third=false"],
        "one=true two=true third=false",
        "a",
    ),
    "a binding before its policy is refused": (["a:-one"], "", "a"),
    "until the policy is there": (["a:-one", "a:-one b:one-"], "one=true", ""),
    "policies go with their source": (["a:first b:second", "b:second"], "second=true", ""),
}


def _texts(state: str) -> dict[str, str]:
    """Texts by source. `one` is a policy with its binding, `one-` without, `-one` the binding; `=` its expression."""
    texts = {}
    for source, words in (item.split(":") for item in state.split()):
        named = [word.partition("=") for word in words.split(",")]
        made = (
            _BINDING.replace("NAME", name[1:])
            if name.startswith("-")
            else (_policy if name.endswith("-") else _bound)(name.rstrip("-"), expression or "true")
            for name, _, expression in named
        )
        texts[source] = "---\n".join(made)
    return texts


@pytest.mark.parametrize(("states", "in_force", "refused"), _HISTORIES.values(), ids=_HISTORIES)
def test_sources_that_change(states: list[str], in_force: str, refused: str) -> None:
    """What is in force after sources changed, and whose newest content is not."""
    found = EMPTY
    for state in states:
        found = _after(found, **_texts(state))

    expected = dict(one.split("=") for one in in_force.split())
    assert (_in_force(found), list(found.refused)) == (expected, refused.split())


_BOTH = _after(EMPTY, a=_bound("first"), b=_bound("second"))


def test_the_reasons() -> None:
    """A refusal says what is wrong where, which other object has the name, or who needs what went."""
    duplicate = _after(_after(EMPTY, b=_bound("one")), a=_bound("one", "false"), b=_bound("one"))
    gone = _after(_after(EMPTY, **_texts("a:one- b:-one")), **_texts("b:-one"))
    unread = updated(_BOTH, {"a": Content("2", (), "a.yaml: cannot be read"), "b": _BOTH.contents["b"]}, _TODAY)

    assert _after(_BOTH, a=_bound("first", "tru"), b=_bound("second")).refused == {
        "a": "a.yaml:7:31: spec.validations[0].expression: undeclared reference to 'tru' (in container '')\ntru\n^"
    }
    assert duplicate.refused == {
        "a": 'a.yaml:3:18: metadata.name: Duplicate value: "one"\n'
        "hint: the first ValidatingAdmissionPolicy of this name is at b.yaml:3: rename one\n"
        'a.yaml:11:18: metadata.name: Duplicate value: "one"\n'
        "hint: the first ValidatingAdmissionPolicyBinding of this name is at b.yaml:11: rename one"
    }
    assert gone.refused == {
        "a": "others need what is no longer there:\n"
        'b.yaml:4:20: spec.policyName: Not found: "one"\n'
        "hint: a ValidatingAdmissionPolicy of this name must be among the documents"
    }
    assert (_in_force(unread), unread.refused) == (_in_force(_BOTH), {"a": "a.yaml: cannot be read"})


def test_the_same_again() -> None:
    """What did not change stays the same object, so that nothing is compiled again."""
    found = updated(_BOTH, dict(_BOTH.contents), _TODAY)

    before, after = _BOTH.files.loaded.policies, found.files.loaded.policies
    assert [one is other for one, other in zip(before, after, strict=True)] == [True, True]


@pytest.mark.parametrize("length", [3, 100])
def test_a_chain_of_sources_that_need_each_other(monkeypatch: pytest.MonkeyPatch, length: int) -> None:
    """The last one is broken, so all are refused, in a bounded number of passes; a source beside them is in force."""
    passes = Mock(wraps=together)
    monkeypatch.setattr(policyset, "together", passes)
    bindings = {number: _BINDING.replace("NAME", f"policy-{number}") for number in range(length)}
    chain = {f"s{number}": f"{_policy(f'policy-{number}')}---\n{bindings[number - 1]}" for number in range(1, length)}

    found = _after(EMPTY, s0=_policy("policy-0"), **chain, beside=_bound("beside"))

    assert (_in_force(found), {*found.refused}) == ({"beside": "true"}, {"s0", *chain})
    assert passes.call_count <= 12


@pytest.mark.parametrize(
    "spec", ["x", "{versions: [v1]}", "{versions: 3}", "{names: {kind: [K]}, versions: [{name: v1, schema: x}]}"]
)
def test_a_definition_that_is_none(spec: str) -> None:
    """A CustomResourceDefinition that nobody could read is an error of its source, and of no other."""
    text = f"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: x}}\nspec: {spec}\n"

    found = _after(EMPTY, a=text, b=_bound("second"))

    assert (_in_force(found), list(found.refused)) == ({"second": "true"}, ["a"])
    assert found.refused["a"].startswith("a.yaml:4:7: spec: this is not a valid CustomResourceDefinition: ")
