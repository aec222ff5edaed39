"""CEL against itself: equality and order, both ways of evaluating, policies together and alone, trees and texts."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.builders import TODAY, request
from support.cel.celexpressions import EXPRESSIONS
from support.cel.celrun import compiled, names
from support.policies.randomrules import rule_set

from policies.cel.equality import compare, contains, equal, find
from policies.cel.library.authorizer import CheckAnswer
from policies.cel.program import Evaluation, Program
from policies.cel.syntax.ast import (
    Call,
    Entry,
    FieldValue,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    Select,
    StructLiteral,
)
from policies.cel.syntax.formatting import ONE_LINE, formatted, same, unparse
from policies.cel.syntax.parser import parse
from policies.cel.syntax.source import Source
from policies.cel.values import (
    ABSENT,
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    BudgetError,
    CelError,
    Duration,
    Optional,
    Timestamp,
    Uint,
)
from policies.engine import engine
from policies.engine.engine import Answer
from policies.engine.facts import NamespaceKey, StaticFacts
from policies.engine.interruption import Key, Missing
from policies.engine.request import AdmissionRequest
from policies.engine.rule import RuleSet
from properties.shapes import fields, some_of

_many = settings(max_examples=300)
_EDGES = [0, 1, -1, 2**53, 2**53 + 1, INT_MIN, INT_MAX]
_numbers = st.one_of(
    st.sampled_from(_EDGES),
    st.integers(INT_MIN, INT_MAX),
    st.sampled_from([Uint(abs(edge) % 2**64) for edge in _EDGES]),
    st.integers(0, UINT_MAX).map(Uint),
    st.sampled_from([float(edge) for edge in _EDGES]),
    st.floats(allow_nan=False),
)
_times = st.one_of(st.integers(-9, 9).map(Duration), st.builds(Timestamp, st.integers(-9, 9), st.sampled_from([0, 60])))
_scalars = st.one_of(
    st.none(), st.booleans(), _numbers, st.text(max_size=3), st.binary(max_size=3), st.integers(0, 2), _times
)
_keys = st.one_of(st.booleans(), st.integers(-2, 3), st.integers(0, 3).map(Uint), st.text(max_size=2))
_values = st.recursive(
    _scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(_keys, inner, max_size=3), inner.map(Optional), st.just(Optional())
    ),
    max_leaves=5,
)


@_many
@given(_values, _values)
def test_equality_is_symmetric(left: Any, right: Any) -> None:
    """Whichever side a value stands on, it equals the same others, and a copy of itself."""
    assert equal(left, right) is equal(right, left)
    assert equal(left, deepcopy(left, {id(ABSENT): ABSENT})) is True


@_many
@given(st.one_of(st.tuples(_numbers, _numbers), st.tuples(_scalars, _scalars)))
def test_order_and_equality_agree(pair: tuple[Any, Any]) -> None:
    """What has an order, as all numbers do, is equal when neither comes first; the order turns with the sides."""
    left, right = pair
    try:
        order = compare(left, right)
    except CelError:
        assert type(left) is not type(right) or left is None
        assert not all(isinstance(side, int | float | Uint) and not isinstance(side, bool) for side in pair)
    else:
        assert (order == 0) is equal(left, right)
        assert compare(right, left) == -order


@_many
@given(st.lists(_values, max_size=4), _values)
def test_a_list_contains_what_equals_an_element(items: list[Any], item: Any) -> None:
    """`in` is equality with one of the elements."""
    assert contains(items, item) is any(equal(item, each) for each in items)
    assert all(contains(items, each) for each in items)


@_many
@given(st.dictionaries(_keys, st.integers(), max_size=4), _keys)
def test_a_map_finds_the_keys_that_are_equal(mapping: dict[Any, Any], key: Any) -> None:
    """A key is found where an equal one is stored, and gives that one's value."""
    stored = [value for known, value in mapping.items() if equal(known, key)]

    assert find(mapping, key) is (stored[0] if stored else ABSENT)


_PROGRAMS = [compiled(text) for text in EXPRESSIONS]
_NAMES = st.sampled_from(["a", "b", "x", "", "a-b", "12", "name"])
_ports = some_of(fields(port=st.integers(1000, 1050)))
OBJECTS = fields(
    metadata=fields(
        name=_NAMES, namespace=_NAMES, labels=st.dictionaries(_NAMES, _NAMES, max_size=3), finalizers=some_of(_NAMES)
    ),
    spec=fields(
        replicas=st.integers(-1, 4),
        paused=st.booleans(),
        name=_NAMES,
        memory=st.sampled_from(["1Gi", "2Gi", "500m", "x"]),
        timeout=st.sampled_from(["1s", "1h", "x"]),
        containers=some_of(fields(image=st.sampled_from(["r/a", "r/b", "q", ""]), ports=_ports)),
    ),
    a=_NAMES,
)


def _comparable(value: Any) -> Any:
    """Value and class at once, for `1` and `true` are equal in Python."""
    if isinstance(value, Optional):
        return ("optional", _comparable(value.value))
    if isinstance(value, list):
        return [_comparable(each) for each in value]
    if isinstance(value, dict):
        return {key: _comparable(each) for key, each in value.items()}
    return (type(value), value)


def _outcome(evaluation: Evaluation) -> tuple[Any, int, str]:
    return _comparable(evaluation.value), evaluation.cost, repr(evaluation.error)


def _disagreements(programs: list[Program], given_: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    pairs = ((each.source.text, each.evaluate(given_), each.evaluate_exactly(given_)) for each in programs)
    return [(text, usual, exact) for text, usual, exact in pairs if _outcome(usual) != _outcome(exact)]


@settings(max_examples=150)
@given(OBJECTS, OBJECTS)
def test_both_evaluators_agree(obj: Any, old: Any) -> None:
    """On any object each expression has the same value or error, and the same cost, however it is evaluated."""
    assert _disagreements(_PROGRAMS, names(obj, oldObject=old)) == []


_LEAVES = ["object.a", "object.x", "object.spec.replicas", "dyn(1)", "dyn('a')", "dyn(true)", "dyn(null)", "dyn(y)"]
_FORMS = (
    "[{0}]", "{{'a': {0}}}", "[{0}, {1}]", "({0} in [])", "({0} in [{1}])", "({0} in {{'a': {1}}})",
    "({0} == {1})", "({0} != [])", "({0} ? {1} : {0})", "({0} || {1})", "({0} && {1})", "[1, 2].map(y, {0})",
    "[{0}].filter(y, {1})", "[{0}].exists(y, {1})", "size({0})", "type({0}) == int", "[?object.?x, {0}]", "{0}['a']",
    "has(object.x) ? {0} : {1}",
)  # fmt: skip


def _forms(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(lambda form, *parts: f"dyn({form.format(*parts)})", st.sampled_from(_FORMS), inner, inner)


@settings(max_examples=200)
@given(OBJECTS, st.recursive(st.sampled_from(_LEAVES), _forms, max_leaves=8))
def test_both_evaluators_agree_on_made_up_expressions(obj: Any, text: str) -> None:
    """Literals, tests of membership and macros within each other have one value and one cost, whatever is in them."""
    assert _disagreements([compiled(f"[1, 2, 3].map(y, {text})")], names(obj)) == []


@settings(max_examples=80)
@given(OBJECTS, st.integers(0, 60))
def test_both_evaluators_agree_on_the_limit(obj: Any, limit: int) -> None:
    """Under a small limit the end comes at the same cost, with or without an exact one, or the value is the same."""
    for program in _PROGRAMS:
        usual, exact = (run(names(obj), limit=limit) for run in (program.evaluate, program.evaluate_exactly))
        assert (program.source.text, _outcome(usual)) == (program.source.text, _outcome(exact))
        short = program.evaluate(names(obj), limit=limit, exact=False)
        same = (short.value, str(short.error)) == (exact.value, str(exact.error))
        assert same or isinstance(short.error, BudgetError), program.source.text
        assert isinstance(short.error, BudgetError) == isinstance(exact.error, BudgetError), program.source.text


@settings(max_examples=100)
@given(OBJECTS)
def test_evaluation_changes_nothing(obj: Any) -> None:
    """After all expressions the object is what it was, key for key and in the same order."""
    given_ = names(obj, oldObject=deepcopy(obj))
    before = deepcopy(given_["object"])
    for program in _PROGRAMS:
        program.evaluate(given_)
        program.evaluate_exactly(given_)

    assert (given_["object"], repr(given_["object"])) == (before, repr(before))
    assert repr(given_["oldObject"]) == repr(before)


_SETS = 40
_some_names = st.sampled_from(["a", "b", "x", ""])
_PODS = OBJECTS.map(lambda obj: {**obj, "apiVersion": "v1", "kind": "Pod"})
_DEPLOYMENTS = fields(
    metadata=fields(name=_some_names, namespace=_some_names),
    spec=fields(template=fields(
        metadata=fields(labels=st.dictionaries(_some_names, _some_names, max_size=2)),
        spec=fields(containers=some_of(fields(image=st.sampled_from(["r/a", "q", ""]))), name=_some_names),
    )),
).map(lambda obj: {**obj, "apiVersion": "apps/v1", "kind": "Deployment"})  # fmt: skip


class _FactsToAsk(StaticFacts, frozen=True):
    """Facts of which some have to be looked up first: Namespace `b`, and all authorization checks."""

    def known(self, key: Key[Any]) -> Any:
        if isinstance(key, NamespaceKey) and key.name != "b":
            return super().known(key)
        raise Missing(key)


@cache
def _rules(seed: int) -> RuleSet:
    """A rule set whose policies were asked about each kind of request, and fused."""
    rules = rule_set(seed)
    for kind in ({"apiVersion": "v1", "kind": "Pod"}, {"apiVersion": "apps/v1", "kind": "Deployment"}):
        template: Any = {"metadata": {}, "spec": {"containers": []}}
        obj = {**kind, "metadata": {"name": "a"}, "spec": {"template": template}}
        for old in (None, obj):
            for namespace in ("default", ""):
                _answer(request(obj, old=old, namespace=namespace), rules, StaticFacts(TODAY), together=True)
    for screener in rules.screeners:
        screener.prepare()
    return rules


def _answer(asked: AdmissionRequest, rules: RuleSet, facts: StaticFacts, *, together: bool) -> list[Any]:
    """The answer in a form that can be compared, or the look-ups that it takes before there is one, with it."""
    looked_up: list[Any] = []
    while True:
        try:
            answer = engine.validate(asked, rules, facts, together=together)
        except Missing as missing:
            looked_up.append(missing.key)
            facts = facts.entered(missing.key, _entry(missing.key))
        else:
            return [looked_up, _shown(answer)]


def _entry(key: Any) -> Any:
    return StaticFacts(TODAY).known(key) if isinstance(key, NamespaceKey) else CheckAnswer(allowed=True)


def _shown(answer: Answer) -> list[Any]:
    decisions = [
        (decision.rule, decision.verdict, decision.violations, decision.notes, decision.more, repr(decision.failure))
        for decision in answer.decisions
    ]
    return [answer.allowed, answer.message, answer.warnings, *decisions]


@settings(max_examples=300)
@given(
    st.integers(0, _SETS - 1),
    st.one_of(_PODS, _PODS, _DEPLOYMENTS),
    st.booleans(),
    st.sampled_from(["default", "b", ""]),
    st.sampled_from(["alice", "bob"]),
)
def test_together_as_one_by_one(seed: int, obj: Any, updated: bool, namespace: str, user: str) -> None:  # noqa: FBT001
    """Whatever is written, what is found and looked up is equal, in the same order and words."""
    asked = request(obj, old=obj if updated else None, namespace=namespace, user=user, name="a")
    facts = _FactsToAsk(TODAY)

    assert _answer(asked, _rules(seed), facts, together=True) == _answer(asked, _rules(seed), facts, together=False)


_PLACE: Any = {"position": -1, "start": 0, "end": 0}
_idents = st.sampled_from(["a", "bc", ".d", "_e1"])
_field_names = st.sampled_from(["a", "spec", "return", "x_1"])
_literals = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(INT_MIN, INT_MAX),
    st.integers(0, UINT_MAX).map(Uint),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
    st.sampled_from(["'", '"', "\\", "a'b\"c", "\n\r\t\0", "'''", "//"]),
    st.binary(max_size=3),
)
_BINARY = ["_+_", "_-_", "_*_", "_/_", "_%_", "_<_", "_<=_", "_>_", "_>=_", "_==_", "_!=_", "@in", "_&&_", "_||_"]


def _call(function: str, *args: Node, target: Node | None = None) -> Node:
    return Call(function, target, list(args), **_PLACE)


def _nodes(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    entry = st.builds(lambda key, value, optional: Entry(key, value, optional, **_PLACE), inner, inner, st.booleans())
    member = st.builds(
        lambda name, value, optional: FieldValue(name, value, optional, **_PLACE),
        st.sampled_from(["a", "image"]),
        inner,
        st.booleans(),
    )
    few = st.lists(inner, max_size=3)
    return st.one_of(
        st.builds(lambda operand, field: Select(operand, field, **_PLACE), inner, _field_names),
        st.builds(_call, st.sampled_from(_BINARY), inner, inner),
        st.builds(_call, st.sampled_from(["!_", "-_"]), inner),
        st.builds(lambda *parts: _call("_?_:_", *parts), inner, inner, inner),
        st.builds(lambda a, b, optional: _call("_[?_]" if optional else "_[_]", a, b), inner, inner, st.booleans()),
        st.builds(lambda a, field: _call("_?._", a, Literal(field, **_PLACE)), inner, _field_names),
        st.builds(lambda name, args: _call(name, *args), st.sampled_from(["f", "has", ".g"]), few),
        st.builds(
            lambda name, target, args: _call(name, *args, target=target),
            st.sampled_from(["f", "all", "map", "orValue"]),
            inner,
            few,
        ),
        st.builds(
            lambda items, marks: ListLiteral(items, frozenset(m for m in marks if m < len(items)), **_PLACE),
            few,
            st.sets(st.integers(0, 2)),
        ),
        st.lists(entry, max_size=2).map(lambda entries: MapLiteral(entries, **_PLACE)),
        st.builds(
            lambda name, fields: StructLiteral(name, fields, **_PLACE),
            st.sampled_from(["Object", "Object.spec", ".JSONPatch"]),
            st.lists(member, max_size=2),
        ),
    )


_leaves = st.one_of(
    _literals.map(lambda value: Literal(value, **_PLACE)), _idents.map(lambda name: Ident(name, **_PLACE))
)
trees = st.recursive(_leaves, _nodes, max_leaves=12)


@given(trees, st.sampled_from([ONE_LINE, 120, 30, 1]))
def test_a_tree_comes_back_from_its_text(tree: Node, width: int) -> None:
    """The text of a tree is parsed to the same tree, however its lines are broken."""
    text = unparse(tree, width)

    assert same(parse(Source(text), expand=False), tree), text


@given(trees)
def test_formatting_again_changes_nothing(tree: Node) -> None:
    """The format of an expression depends on its tree and the spelling of its literals only."""
    source = Source(unparse(tree).replace("has(", "f(").replace(".all(", ".f(").replace(".map(", ".f("))
    once = formatted(source, 40)

    assert formatted(Source(once), 40) == once
