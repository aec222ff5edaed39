"""Cases that are combined: messages, reasons, conditions, and what is dear."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from cluster.policycases.case import BIG_MAP, EXPENSIVE, TWO_CHECKS, Ask, Case, mutating, validating

if TYPE_CHECKING:
    from collections.abc import Iterator


def messages() -> Iterator[Case]:
    """What is said: messageExpression, message, expression, in this order, as far as they are any good."""
    expressions = {
        "none": None,
        "text": "'it is ' + string(object.data.a)",
        "padded": "'  padded \\t '",
        "blank": "' \\n '",
        "newline": "'two\\nlines'",
        "ends": "'one line\\n'",
        "return": "'carriage\\rreturn'",
        "error": "string(object.data.missing)",
        "kind": "'n: ' + string(int(object.data.a) / 0)",
        "unicode": "'gr\u00fc\u00df dich \u2603 ' + object.data.a + '\u00a0'",
        "quotes": "'a \"b\" <c> & \\\\ d'",
    }
    statics = {"none": None, "text": "the message", "padded": "  the message\t"}
    for (key, expression), (static, message) in product(expressions.items(), statics.items()):
        fields = {"messageExpression": expression, "message": message}
        given = {name: value for name, value in fields.items() if value is not None}
        yield validating(f"message-{key}-{static}", {"expression": "object.data.a == '2'", **given})
    for size in (5119, 5120, 5121):
        ask = Ask(content={"data": {"t": "y" * size}})
        yield validating(
            f"message-{size}", {"expression": "false", "messageExpression": "string(object.data.t)"}, asks=[ask]
        )
    ask = Ask(content={"data": {"t": "\u00fc" * 2561}})
    yield validating("message-bytes", {"expression": "false", "messageExpression": "string(object.data.t)"}, asks=[ask])


def reasons() -> Iterator[Case]:
    """The reasons that can be written (Unauthorized is refused) and none: alone, and after one that is true."""
    for reason in (None, "Forbidden", "Invalid", "RequestEntityTooLarge"):
        given = {"reason": reason} if reason else {}
        yield validating(f"reason-{str(reason).lower()}", {"expression": "false", "message": "no", **given})
        yield validating(
            f"reason-{str(reason).lower()}-second",
            {"expression": "true", "reason": "RequestEntityTooLarge"},
            {"expression": "object.data.a != '1'", **given},
        )


def conditions() -> Iterator[Case]:
    """Match conditions: true, false and failing ones, together."""
    texts = {
        "t": "has(object.data)",
        "f": "object.data.a == '2'",
        "e": "object.data.x == '1'",
        "d": "object.data.y == '1'",
        "n": "namespaceObject.metadata.name == 'x'",
        "r": "request.name != ''",
        "u": "request.userInfo.username == 'alice'",
    }
    chosen = ["t", "f", "e", "tf", "ft", "ef", "fe", "et", "te", "ed", "ee", "edf", "eed", "tt", "n", "r", "u", "nf"]
    for letters, policy in product(chosen, ("Fail", "Ignore")):
        given = [{"name": f"c{index}", "expression": texts[letter]} for index, letter in enumerate(letters)]
        yield validating(
            f"conditions-{letters}-{policy.lower()}",
            {"expression": "false", "message": "judged"},
            matchConditions=given,
            failurePolicy=policy,
        )
    for count, policy in product((3, 4), ("Fail", "Ignore")):
        given = [{"name": f"c{index}", "expression": TWO_CHECKS} for index in range(count)]
        yield validating(
            f"conditions-budget-{count}-{policy.lower()}", "false", matchConditions=given, failurePolicy=policy
        )


def variables() -> Iterator[Case]:
    """How many variables an expression can afford, of which each is evaluated once."""
    many = [{"name": f"v{index}", "expression": TWO_CHECKS} for index in range(15)]
    for count in (14, 15):
        text = " && ".join(f"variables.v{index}" for index in range(count)) + " && false"
        yield validating(f"variables-budget-{count}", text, variables=many)
    yield validating("variables-twice", "variables.v1 && variables.v1", "!variables.v1", variables=many)


def budgets() -> Iterator[Case]:
    """What an evaluation may cost: all validations, all messages, all annotations."""
    for policy in ("Fail", "Ignore"):
        given: Any = {"failurePolicy": policy}
        name = policy.lower()
        for count in (14, 15):
            yield validating(
                f"budget-validations-{count}-{name}", *([TWO_CHECKS] * (count - 1)), f"!{TWO_CHECKS}", **given
            )
        dear = {"expression": "false", "messageExpression": f"{EXPENSIVE} ? 'a' : 'b'"}
        for count in (12, 13):
            yield validating(f"budget-messages-{count}-{name}", *([dear] * count), asks=[BIG_MAP], **given)
        last = {"expression": "false", "message": "no"}
        yield validating(f"budget-messages-false-{name}", *([dear] * 13), last, asks=[BIG_MAP], **given)
        keys = [{"key": f"k{i}", "valueExpression": f"{EXPENSIVE} ? 'a' : 'b'"} for i in range(13)]
        yield validating(f"budget-annotations-{name}", "false", auditAnnotations=keys, asks=[BIG_MAP], **given)
    dears = " && ".join([f"!variables.v{index}" for index in range(13)])
    yield mutating(
        "budget",
        f"[JSONPatch{{op: 'add', path: '/data/b', value: string({dears})}}]",
        asks=[BIG_MAP],
        variables=[{"name": f"v{index}", "expression": EXPENSIVE} for index in range(13)],
    )
    yield validating("budget-warn", *([TWO_CHECKS] * 15), bindings=[{"validationActions": ["Warn"]}])


def warned() -> Iterator[Case]:
    """Warnings, which are cut once there are too many."""
    warn = {"validationActions": ["Warn"]}
    for count, size in ((3, 40), (17, 240), (20, 400), (40, 100), (45, 100), (60, 200)):
        given = [{"expression": "false", "message": f"{index:02d}".ljust(size, "w")} for index in range(count)]
        yield validating(f"warned-{count}-{size}", *given, bindings=[warn])


def annotated() -> Iterator[Case]:
    """Audit annotations, as far as they show: one that fails refuses the request."""
    for name, text in {"null": "null", "text": "'x'", "blank": "'  '", "error": "string(object.data.x)"}.items():
        yield validating(
            f"annotated-{name}",
            {"expression": "object.data.a == '1'"},
            auditAnnotations=[{"key": "k", "valueExpression": text}],
        )
        yield validating(
            f"annotated-{name}-false",
            {"expression": "object.data.a == '2'", "message": "no"},
            auditAnnotations=[{"key": "k", "valueExpression": text}],
        )
    long = Ask(content={"data": {"t": "\u00fc" * 5119 + "xyz"}})
    notes = [{"key": "long", "valueExpression": "string(object.data.t)"}, {"key": "two", "valueExpression": "' a, b '"}]
    yield validating("annotated-long", auditAnnotations=notes, asks=[long])


CASES: tuple[Case, ...] = tuple(
    case for make in (messages, reasons, conditions, variables, budgets, warned, annotated) for case in make()
)
