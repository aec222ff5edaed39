"""The policies in force after each change of their sources: what is taken, what is refused and why."""

from collections.abc import Mapping
from datetime import date
from unittest.mock import Mock

import pytest
from support.policies.policydocuments import documents

from policies.admissionpolicy.documents.reader import parts, together
from webhook.sources import policyset
from webhook.sources.policyset import EMPTY, PolicySet, updated
from webhook.sources.reading import Content

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


_BOTH = _after(EMPTY, a=_bound("first"), b=_bound("second"))


def test_all_sources_together() -> None:
    """Without errors the set is what all sources hold, in their order."""
    assert (_in_force(_BOTH), _BOTH.refused) == ({"first": "true", "second": "true"}, {})
    assert [binding.name for binding in _BOTH.files.loaded.bindings] == ["first", "second"]


def test_a_source_that_breaks_keeps_what_it_had() -> None:
    """A source with an error stays as it was, with the error's place as the reason; the others follow their changes."""
    found = _after(_BOTH, a=_bound("first", "tru"), b=_bound("second", "false"))

    assert _in_force(found) == {"first": "true", "second": "false"}
    undeclared = "a.yaml:7:31: spec.validations[0].expression: undeclared reference to 'tru' (in container '')\ntru\n^"
    assert found.refused == {"a": undeclared}


def test_a_source_that_cannot_be_read_keeps_what_it_had() -> None:
    """A file that is gone or no YAML takes away nothing that was loaded from its source."""
    found = updated(_BOTH, {"a": Content("2", (), "a.yaml: cannot be read"), "b": _BOTH.contents["b"]}, _TODAY)

    assert (_in_force(found), found.refused) == (_in_force(_BOTH), {"a": "a.yaml: cannot be read"})


def test_a_new_source_with_errors_is_left_out() -> None:
    """Where there was nothing before, nothing is in force, and the rest is."""
    found = _after(EMPTY, a=_bound("first"), b=_bound("second", "1"))

    assert (_in_force(found), list(found.refused)) == ({"first": "true"}, ["b"])


def test_a_name_that_is_taken() -> None:
    """Of two policies with one name the one that was there stays, wherever its source stands in the order."""
    only = _after(EMPTY, b=_bound("one"))

    found = _after(only, a=_bound("one", "false"), b=_bound("one"))

    assert _in_force(found) == {"one": "true"}
    assert found.refused == {
        "a": 'a.yaml:3:18: metadata.name: Duplicate value: "one"\n'
        "hint: the first ValidatingAdmissionPolicy of this name is at b.yaml:3: rename one\n"
        'a.yaml:11:18: metadata.name: Duplicate value: "one"\n'
        "hint: the first ValidatingAdmissionPolicyBinding of this name is at b.yaml:11: rename one"
    }


def test_what_others_need_does_not_go() -> None:
    """A policy that a binding elsewhere names stays in force when its source is gone, and comes again with it."""
    binding = _BINDING.replace("NAME", "one")
    split = _after(EMPTY, a=_policy("one"), b=binding)

    gone = _after(split, b=binding)
    again = _after(gone, a=_policy("one", "false"), b=binding)

    needed = (
        "others need what is no longer there:\n"
        'b.yaml:4:20: spec.policyName: Not found: "one"\n'
        "hint: a ValidatingAdmissionPolicy of this name must be among the documents"
    )
    assert (_in_force(gone), gone.refused) == ({"one": "true"}, {"a": needed})
    assert (_in_force(again), again.refused) == ({"one": "false"}, {})


def test_a_source_is_taken_once_it_fits() -> None:
    """A binding that came before its policy is refused until the policy is there."""
    binding = _BINDING.replace("NAME", "one")
    early = _after(EMPTY, a=binding)

    assert (_in_force(early), list(early.refused)) == ({}, ["a"])
    fitting = _after(early, a=binding, b=_policy("one"))
    assert (_in_force(fitting), fitting.refused) == ({"one": "true"}, {})


def test_a_source_that_goes() -> None:
    """Policies go with their source."""
    found = _after(_BOTH, b=_bound("second"))

    assert (_in_force(found), found.refused) == ({"second": "true"}, {})


def test_the_same_again() -> None:
    """What did not change stays the same object, so that nothing is compiled again."""
    found = updated(_BOTH, dict(_BOTH.contents), _TODAY)

    before, after = _BOTH.files.loaded.policies, found.files.loaded.policies
    assert [one is other for one, other in zip(before, after, strict=True)] == [True, True]


def test_others_follow_their_changes_while_something_that_is_needed_is_gone() -> None:
    """A source that was deleted although it is needed keeps back nobody else."""
    binding = _BINDING.replace("NAME", "one")
    split = _after(EMPTY, a=_policy("one"), b=binding, c=_bound("third"))

    found = _after(split, b=binding, c=_bound("third", "false"), d=_bound("fourth"))

    assert _in_force(found) == {"third": "false", "fourth": "true", "one": "true"}
    assert list(found.refused) == ["a"]


def test_whoever_takes_a_name_keeps_back_nobody() -> None:
    """A source that has had a name changes it freely, whatever another one claims, and wherever that one stands."""
    only = _after(EMPTY, b=_bound("one"))
    claimed = _after(only, a=_bound("one"), b=_bound("one"))

    found = _after(claimed, a=_bound("one", "1 == 1"), b=_bound("one", "false"))

    assert (_in_force(found), list(found.refused)) == ({"one": "false"}, ["a"])


def test_others_follow_their_changes_while_it_is_unknown_who_removed_what_is_needed() -> None:
    """A source from which a policy went that another one binds keeps back only those that name the same objects."""
    binding = _BINDING.replace("NAME", "one")
    split = _after(EMPTY, a=f"{_policy('one')}---\n{_bound('two')}", b=binding, c=_bound("third"))

    found = _after(split, a=_bound("two"), b=binding, c=_bound("third", "false"))

    assert _in_force(found) == {"one": "true", "two": "true", "third": "false"}
    assert list(found.refused) == ["a"]


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
