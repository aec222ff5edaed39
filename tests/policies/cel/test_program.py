from __future__ import annotations

import doctest
import re
from itertools import count
from typing import Any

import pytest
from support.cel.answers import Table
from support.cel.celrun import ENVIRONMENT, compiled, names

from policies.cel import program as module
from policies.cel import types
from policies.cel.cost import EXPRESSION_LIMIT
from policies.cel.generation.codegen import Generated
from policies.cel.library.authorizer import Authorizer, Check, User
from policies.cel.program import NO_VARIABLES, Composition, Evaluation, Program, compile_expression
from policies.cel.syntax.source import CompileError, Source
from policies.cel.values import BudgetError, CelError
from policies.engine.interruption import Missing, TimeLimitError

NUMBERS = list(range(1000))
WALK = "object.l.all(x, x >= 0)"  # 2 + 5 per element + 1


def _shown(evaluation: Evaluation) -> tuple[Any, int, str | None]:
    return evaluation.value, evaluation.cost, None if evaluation.error is None else str(evaluation.error)


def test_the_examples_in_the_documentation() -> None:
    """What the module's docstrings show is so."""
    assert doctest.testmod(module).failed == 0
    assert doctest.testmod(module).attempted > 5


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("object.a + 1", (2, 3, None)),
        ("object.x", (None, 2, "no such key: x")),
        ("object.x == 1 || object.a == 1", (True, 6, None)),
        ("null", (None, 0, None)),
    ],
)
def test_evaluate(text: str, expected: tuple[Any, int, str | None]) -> None:
    """An evaluation is a value or an error, with its cost; null is a value."""
    assert _shown(compiled(text).evaluate(names())) == expected
    assert _shown(compiled(text).evaluate_exactly(names())) == expected


@pytest.mark.parametrize(
    ("text", "result", "message"),
    [
        ("1", types.BOOL, "must evaluate to bool but got int"),
        ("[[]]", types.STRING, "must evaluate to string but got list(list(dyn))"),
        ("object.a", types.BOOL, "must evaluate to bool but got dyn"),
        ("duration('1s')", types.BOOL, "must evaluate to bool but got google.protobuf.Duration"),
        ("['a']", types.BOOL, "must evaluate to bool but got list(string)"),
    ],
)
def test_results_of_another_type(text: str, result: types.Type, message: str) -> None:
    """An expression of another type than its use demands is refused in Kubernetes' words, without a place."""
    with pytest.raises(CompileError) as caught:
        compile_expression(text, ENVIRONMENT, result)

    assert (caught.value.reference(), caught.value.full_reference()) == (message, message)
    assert ("hostNetwork == true" in caught.value.issues[0].hint) is (text == "object.a")


def test_errors_of_the_text() -> None:
    """What does not compile is refused with the source that was given, and its lines."""
    source = Source("1 +\n  x", name="policy.yaml", line=7, column=3)
    with pytest.raises(CompileError) as caught:
        compile_expression("ignored", ENVIRONMENT, source=source)

    assert caught.value.source is source
    assert str(caught.value).startswith("policy.yaml:8:")


@pytest.mark.parametrize("limit", [0, 1, 2, 3])
def test_the_limit(limit: int) -> None:
    """A cost up to the limit is allowed; beyond it the evaluation ends at the first charge that passes it."""
    evaluation = compiled("object.a + 1").evaluate(names(), limit=limit)

    if limit == 3:
        assert _shown(evaluation) == (2, 3, None)
    else:
        assert isinstance(evaluation.error, BudgetError)
        assert (evaluation.value, evaluation.cost, evaluation.error.cost) == (None, limit + 1, limit + 1)


def test_the_limit_is_not_absorbed() -> None:
    """No `||` and no macro turns the end of the budget into a value."""
    for text in (f"{WALK} || true", f"[1].exists(x, {WALK}) || true", f"true || {WALK}"):
        evaluation = compiled(text).evaluate(names({"l": NUMBERS}), limit=1000)
        ended = isinstance(evaluation.error, BudgetError)
        assert ended is not text.startswith("true")


@pytest.mark.parametrize("exactly", [False, True], ids=["usually", "exactly"])
def test_the_clock(exactly: bool) -> None:  # noqa: FBT001
    """A long loop asks the clock; its yes ends the evaluation, absorbed by nothing."""
    program = compiled(f"object.l.all(y, {WALK}) || true")
    asked: list[int] = []

    def expired() -> bool:
        asked.append(1)
        return len(asked) == 3

    evaluate = program.evaluate_exactly if exactly else program.evaluate
    with pytest.raises(TimeLimitError):
        evaluate(names({"l": NUMBERS[:150]}), expired=expired)

    assert len(asked) == 3


def test_the_clock_is_asked_where_turns_cost_little() -> None:
    """The exact evaluator asks at every 256th turn of a loop, however little the turns cost."""
    looks = count()
    program, given = compiled("object.l.all(x, true)"), names({"l": NUMBERS[:600]})

    assert program.evaluate_exactly(given, expired=lambda: next(looks) < 0).value is True
    assert next(looks) == 600 // 256


def test_unanswered_checks_pass_through() -> None:
    """A check without an answer ends the evaluation as an exception, and is no failure that `||` absorbs."""
    program = compiled("authorizer.group('').resource('pods').check('get').allowed() || true")
    given = names(authorizer=Authorizer(Table({}), Check(user=User("jane"))))
    for evaluate in (program.evaluate, program.evaluate_exactly):
        with pytest.raises(Missing) as caught:
            evaluate(given)
        assert (caught.value.key.resource, caught.value.key.verb) == ("pods", "get")


def _composition(**texts: str) -> Composition:
    composition = Composition(ENVIRONMENT)
    for name, text in texts.items():
        composition = composition.declare(name, text)
    return composition


def test_variables_are_evaluated_once_and_only_when_they_are_read() -> None:
    """A variable that nobody reads costs nothing and cannot fail; one that was read keeps its value and its cost."""
    composition = _composition(n="object.a + 1", bad="object.x", unused="1 / 0")
    bound = composition.bind(names())
    program = compile_expression("variables.n == 2 || variables.bad", composition.environment)

    assert [_shown(program.evaluate(bound)) for _ in range(2)] == [(True, 3, None)] * 2
    assert (dict(bound["variables"]), bound["variables"].cost) == ({"n": 2}, 3)


def test_variables_use_those_before_them() -> None:
    """A variable sees those that were declared before, and not later ones; one that does not compile says so."""
    composition = _composition(a="object.a", b="variables.a + variables.a", c="variables.d", d="1")
    bound = composition.bind(names())
    found = [compile_expression(f"variables.{name}", composition.environment).evaluate(bound) for name in "bc"]

    assert (found[0].value, bound["variables"].cost) == (2, 2 + 5)
    assert re.match(
        r'composited variable "c" fails to compile: compilation failed: ERROR: <input>:1:10: undefined field \'d\'',
        str(found[1].error),
    )


def test_a_variable_over_its_own_limit() -> None:
    """Each variable has a budget of its own; passing it is a failure of the variable."""
    composition = _composition(big="object.l.all(x, object.l.all(y, x >= y - 999))")
    bound = composition.bind(names({"l": NUMBERS}))
    found = compile_expression("variables.big", composition.environment).evaluate(bound)

    message = 'composited variable "big" fails to evaluate: operation cancelled: actual cost limit exceeded'
    assert (_shown(found), bound["variables"].cost) == ((None, 2, message), EXPRESSION_LIMIT + 1)


def test_the_clock_ends_variables_too() -> None:
    """The end of the time in a variable is the end of everything."""
    composition = _composition(long="object.l.all(x, object.l.all(y, x >= y - 999))")
    bound = composition.bind(names({"l": NUMBERS}), expired=lambda: True)
    program = compile_expression("variables.long || true", composition.environment)

    with pytest.raises(TimeLimitError):
        program.evaluate(bound)


def test_without_variables() -> None:
    """A policy without variables has none that could be read."""
    assert Composition(ENVIRONMENT).bind({"object": 1}) == {"object": 1, "variables": NO_VARIABLES}
    with pytest.raises(CelError, match="no such key: x"):
        NO_VARIABLES.cel_field("x")


def _broken(text: str, source: str) -> tuple[Program, list[Exception]]:
    """A program whose generated function is another one, and the list of faults that it tells."""
    program, told = compiled(text), list[Exception]()
    program.generated = Generated(f"def evaluate(names, limit, expired):\n {source}", {})
    program.on_fault = lambda _, error: told.append(error)
    return program, told


def test_a_defect_of_generated_code_is_told() -> None:
    """Where generated code fails and the exact evaluator has a value, the value is right and the failure counted."""
    program, told = _broken("object.a + 1", "return undefined, 1")

    shown = [_shown(program.evaluate(names({"a": 1}))) for _ in range(2)]

    assert shown == [(2, 3, None)] * 2
    assert (program.faults, list(map(repr, told))) == (2, ["""NameError("name 'undefined' is not defined")"""] * 2)


@pytest.mark.parametrize(
    ("text", "source", "object_"),
    [
        pytest.param("object.a + 1", "return {}['a'], 1", {}, id="the exact evaluator fails too"),
        pytest.param("object.a == 1 || object.b", "return {}['a'], 1", {"b": True}, id="a failure is absorbed"),
        pytest.param("object.a", "fail()", {"a": 1}, id="handed over"),
        pytest.param("object.?a.hasValue()", "return 'text'.get('a'), 1", {"a": 1}, id="no map"),
        pytest.param("object.a", "return None['a'], 1", {"a": 1}, id="nothing"),
        pytest.param("object.a", "return PASS[5000], 1", {"a": 1}, id="a long text"),
        pytest.param("object.a", "return 1, limit + 1", {"a": 1}, id="too expensive"),
    ],
)
def test_what_generated_code_leaves_to_the_exact_evaluator_is_no_defect(
    text: str, source: str, object_: dict[str, Any]
) -> None:
    """Failures, values of other classes, long texts and costs above the limit are the exact evaluator's to judge."""
    program, told = _broken(text, source)

    program.evaluate(names(object_))

    assert (program.faults, told) == (0, [])


def test_lists_are_not_shared_between_evaluations() -> None:
    """The list that a macro builds is a new one each time, and the range stays as it was."""
    program, obj = compiled("object.l.map(x, x)"), {"l": [1, 2]}
    first, second = (program.evaluate_exactly(names(obj)).value for _ in range(2))

    assert (first, second, first is second, type(first), obj) == ([1, 2], [1, 2], False, list, {"l": [1, 2]})
