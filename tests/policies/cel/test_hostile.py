"""Expressions and objects at and beyond the bounds: each ends with a value or with an error that says why."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from typing import Any

import pytest
from support.cel.celrun import ENVIRONMENT, Failed, compiled, exactly, names, refused, usually
from support.patience import PATIENCE

from policies.cel.library import regex
from policies.cel.program import Composition, Evaluation, compile_expression
from policies.cel.recursion import NestingError, deeply
from policies.cel.types import Kind
from policies.cel.values import BudgetError
from policies.engine.interruption import METER, TimeLimitError

DEEP = "expression recursion limit exceeded: 250"
CHAINED = "max recursion depth exceeded"
LARGE = "expression is too large when its macros are expanded"


def _nested(depth: int) -> str:
    text = "true"
    for level in range(depth):
        text = f"[1].all(x{level}, {text})"
    return text


def _chain(first: str, text: str, length: int) -> Composition:
    """Variables `v0`, `v1`, ..., each an expression about the one before, which is written `V`."""
    composition = Composition(ENVIRONMENT).declare("v0", first)
    for number in range(length):
        composition = composition.declare(f"v{number + 1}", text.replace("V", f"variables.v{number}"))
    return composition


def _deep_object(depth: int) -> Any:
    obj: Any = 1
    for _ in range(depth):
        obj = {"a": obj}
    return obj


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_nested(300), DEEP),
        ("object" + ".?a" * 300, CHAINED),
        ("object.s" + ".lowerAscii()" * 300, CHAINED),
        ("object.l" + ".map(x, x)" * 300, CHAINED),
        ("optional.of(1)" + ".optMap(x, x)" * 30, LARGE),
    ],
    ids=lambda value: value[:24],
)
def test_refused(text: str, message: str) -> None:
    """What is nested too deeply, chained too long or too large is an error of the compilation."""
    assert [found for _, found, _ in refused(text)] == [message]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(" * 249 + "1" + ")" * 249, (1, 0)),
        ("1" + " + 1" * 249, (250, 249)),
        ("object.a" + " + object.a" * 249, (250, 749)),
        ("true" + " && object.a == 1" * 2000, (True, 6000)),
        ("false" + " || object.a == 2" * 2000, (False, 6000)),
        ("!" * 10_001 + "true", (False, 1)),
        ("-" * 10_000 + "1", (1, 0)),
        ("object.s" + ".lowerAscii()" * 240, ("text", 242)),
        (_nested(249), (True, 996)),
        ("object.l" + ".map(x, x)" * 100, ([1, 2, 3], 4002)),
    ],
    ids=lambda value: str(value)[:24],
)
def test_just_within_the_bounds(text: str, expected: tuple[Any, int]) -> None:
    """What the reference accepts is evaluated, whichever way, however deep Python finds it."""
    assert (usually(text), exactly(text)) == (expected, expected)


@pytest.mark.parametrize(
    "text",
    [
        "object" + ".a" * 240,
        "object" + "['a']" * 240,
        "object" + ".?a" * 240 + ".orValue(0)",
        "object" + ".?a" * 120 + ".optMap(x, x" + ".a" * 120 + ").orValue(0)",
    ],
    ids=lambda text: text[:12],
)
def test_deep_objects(text: str) -> None:
    """A long way down a deep object there is its end."""
    assert usually(text, _deep_object(240))[0] == exactly(text, _deep_object(240))[0] == 1


def test_values_that_are_nested_beyond_python() -> None:
    """Comparing objects that are nested without bounds ends in an error or an answer."""
    left, right = _deep_object(30_000), _deep_object(30_000)
    evaluation = compiled("object == oldObject").evaluate(names(left, oldObject=right))

    assert evaluation.value is True or str(evaluation.error) == "values are nested too deeply"


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("object.s.matches('(a+)+$')", "literal"),
        ("object.s.matches(object.p)", "computed"),
        ("object.s.find('(a|aa)+$') == ''", "found"),
        ("object.s.matches('(.*)(.*)(.*)(.*)x')", "many"),
    ],
)
def test_patterns_on_long_texts(text: str, pattern: str) -> None:
    """No pattern blows up on a long text; the cost grows with the length."""
    obj = {"s": "a" * 300_000 + "!", "p": "(a+)+$"}
    value, cost = usually(text, obj)

    assert value is (pattern == "found")
    assert cost > 30_000
    assert (value, cost) == exactly(text, obj)


LONG = {
    "s": "a" * 3_000_000,
    "q": '"' * 3_000_000,
    "u": "http://a/" + "%41" * 1_000_000,
    "l": [1] * 1_500_000,
    "n": [[1] * 50] * 30_000,
    "m": {f"k{number}": {"a": 1} for number in range(200_000)},
    "p": "[b-d]x",
}


@pytest.mark.parametrize(
    "text",
    [
        "object.s.matches('[ab]*a[ab]{20}c')",
        "object.s.matches(object.p)",
        "object.s.findAll('(?:aa|a)*b|a').size() == 0",
        "object.s.split('a').size() == 0",
        "object.q.format([]) == ''",
        "strings.quote(object.q) == ''",
        "isURL(object.u)",
        "format.dns1123Label().validate(object.s).hasValue()",
        "duration(object.s) == duration('1s')",
        "object.l == oldObject.l",
        "object.n == oldObject.n",
        "object.m == oldObject.m",
        "object in [oldObject]",
        "object.l.sort() == []",
        "object.l.indexOf(2) == 1",
        "object.l.map(x, x) == object.l",
        "(object.l + object.l) == []",
        "sets.contains([object.n], [oldObject.n])",
        "'%s'.format([object.n]) == ''",
    ],
)
def test_calls_say_beforehand_that_they_take_long(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody may be kept waiting no call begins that may take long, and others look at the clock."""
    looks = iter(range(40))
    monkeypatch.setattr(METER, "longest", 20_000.0)
    monkeypatch.setattr(METER, "expired", lambda: next(looks, None) is None)

    with pytest.raises(TimeLimitError):
        compiled(text).evaluate(names(LONG, oldObject=deepcopy(LONG)), expired=METER.expired)


def test_a_search_beyond_all_bounds() -> None:
    """A large expression is not searched for in a long text: that is an error, which says so."""
    value, _ = usually(r"object.s.matches('\\pL{8}b')", {"s": "a" * 2_000_000})

    assert value == Failed("the text is too long to be searched for so large a regular expression")


def test_matches_beyond_all_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Matches each of which is found only at the end of the text are found in so many bytes, and then are an error."""
    monkeypatch.setattr(regex, "_MOST_BYTES", 500_000)
    found = [usually("object.s.findAll('(?:aa|a)*b|a').size()", {"s": "a" * count})[0] for count in (900, 1100)]

    assert found == [900, Failed("the text is too long to be searched for so many matches")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("object.l.all(x, x >= 0)", (True, 2 + 5 * 10_000 + 1)),
        ("object.l.map(x, x + 1).size()", (10_000, 2 + 14 * 10_000 + 1 + 1)),
        ("9999 in object.l", (True, 2 + 1)),
    ],
)
def test_many_elements(text: str, expected: tuple[Any, int]) -> None:
    """A list of 10,000 elements costs what its elements cost."""
    obj = {"l": list(range(10_000))}

    assert usually(text, obj) == exactly(text, obj) == expected


@pytest.mark.parametrize(
    "text",
    [
        "object.l.all(x, object.l.all(y, x + y >= 0))",
        "object.l.map(x, object.l.map(y, x * y)).size() > 0",
        "object.l.map(a, object.l.map(b, object.l.map(c, object.l.map(d, a + b + c + d)))).size() == 1",
    ],
)
def test_loops_in_loops(text: str) -> None:
    """Macros in macros over many elements run out of the budget, at the same cost whichever way."""
    program, given = compiled(text), names({"l": list(range(2000))})
    found = [run(given) for run in (program.evaluate, program.evaluate_exactly)]

    assert [type(each.error) for each in found] == [BudgetError, BudgetError]
    assert found[0].cost == found[1].cost > 1_000_000
    assert isinstance(program.evaluate(given, exact=False).error, BudgetError)


def test_texts_that_double() -> None:
    """A text that doubles in each variable ends with the budget of one of them, and not with the memory."""
    composition = _chain("string(object.s)", "V + V", 40)
    program = compile_expression("variables.v40", composition.environment)
    evaluation = program.evaluate(composition.bind(names({"s": "a" * 100})))

    assert evaluation.value is None
    assert str(evaluation.error).endswith("operation cancelled: actual cost limit exceeded")


@pytest.mark.parametrize(
    "text",
    [
        "object.l.map(x, 'aaaaaaaaaa').join(object.s)",
        "object.s.replace('a', object.s)",
        "object.s.split('').size() > 0",
        "'%s%s%s'.format([object.s, object.s, object.l.map(x, object.s)])",
        "object.l.map(x, object.s).map(x, x + x).join('')",
    ],
)
def test_large_results(text: str) -> None:
    """What would become very large ends with a value or with the budget."""
    program, given = compiled(text), names({"s": "a" * 20_000, "l": list(range(300))})
    usual, exact = (run(given) for run in (program.evaluate, program.evaluate_exactly))

    assert (usual.value, usual.cost, str(usual.error)) == (exact.value, exact.cost, str(exact.error))
    assert usual.error is None or isinstance(usual.error, BudgetError)


def _from(depth: int, function: Callable[[], Any]) -> Any:
    return function() if depth == 0 else _from(depth - 1, function)


@pytest.mark.parametrize("depth", range(0, 40, 3))
def test_many_variables(depth: int) -> None:
    """A long chain of variables, each reading the one before, has a value, from wherever it is evaluated."""
    composition = _chain("1", "V + 1", 200)
    program = compile_expression("variables.v200", composition.environment)

    assert program.type.kind is Kind.INT
    assert _from(depth, lambda: program.evaluate(composition.bind(names()))) == Evaluation(value=201, cost=2)


FAILED = "".join(f'composited variable "v{number}" fails to evaluate: ' for number in range(60, -1, -1))


@pytest.mark.parametrize(
    ("first", "text", "expected", "cost"),
    [
        ("1", "V == 1 && (object.x == 1 || true) ? 1 : 0", 1, 60 * 6),
        ("object.x", "V + V", Failed(f"{FAILED}no such key: x"), 60 * 5 + 2),
    ],
    ids=["left to the exact evaluator", "failing"],
)
def test_variables_are_evaluated_a_few_times(first: str, text: str, expected: object, cost: int) -> None:
    """Variables that fail, or are left to the exact evaluator, cost what each costs once, and not 2**n."""
    composition = _chain(first, text, 60)
    bound = composition.bind(names())
    evaluation = compile_expression("variables.v60", composition.environment).evaluate(bound)

    assert (Failed(str(evaluation.error)) if evaluation.error else evaluation.value, evaluation.cost) == (expected, 2)
    assert bound["variables"].cost == cost


def test_deep_variables_in_deep_expressions() -> None:
    """A variable at the bound of depth, read deep within an expression at the bound, is evaluated."""
    composition = Composition(ENVIRONMENT).declare("v", "object.a" + " + object.a" * 240)
    text = "[1].all(x, " * 40 + "(" * 150 + "variables.v == 241" + ")" * 150 + ")" * 40
    program = compile_expression(text, composition.environment)

    assert program.evaluate(composition.bind(names())).value is True


@pytest.mark.parametrize("text", ["", " ", "\x00", "\ud800", "object.\ud800", "/* */", "//", "\ufeff1", "é"], ids=ascii)
def test_odd_texts(text: str) -> None:
    """Texts that are hardly any are refused."""
    assert refused(text) != []


def test_recursion_without_end() -> None:
    """What has no end is an error of its own, also within one another, and the limit is as before."""
    usual = sys.getrecursionlimit()

    with pytest.raises(NestingError):
        deeply(lambda: _from(10**9, dict))
    with pytest.raises(NestingError):
        deeply(lambda: deeply(lambda: _from(10**9, dict)))
    assert sys.getrecursionlimit() == usual


def test_usual_depths_need_no_room() -> None:
    """A function is called once, at the usual limit, and any other failure of it passes through."""
    limits: list[int] = []

    def failing() -> None:
        limits.append(sys.getrecursionlimit())
        raise ValueError("once")

    with pytest.raises(ValueError, match="once"):
        deeply(failing)
    assert limits == [sys.getrecursionlimit()]


def test_threads_share_the_limit() -> None:
    """A thread that is done takes no room from another one that is deep down, and the last one gives it back."""
    usual = sys.getrecursionlimit()
    down, done = threading.Event(), threading.Event()

    def stay() -> Any:
        down.set()
        assert done.wait(PATIENCE)
        return _from(500, lambda: "stayed")

    with ThreadPoolExecutor(1) as pool:
        staying = pool.submit(deeply, lambda: _from(usual + 1000, stay))
        assert down.wait(PATIENCE)
        assert deeply(lambda: _from(usual + 1000, lambda: "returned")) == "returned"
        with pytest.raises(NestingError):
            deeply(lambda: _from(10**9, dict))
        assert sys.getrecursionlimit() > usual
        done.set()
        assert staying.result(PATIENCE) == "stayed"

    assert sys.getrecursionlimit() == usual
