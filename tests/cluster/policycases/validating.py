"""The cases of ValidatingAdmissionPolicy about verdicts, actions and messages."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from cluster.policycases.case import (
    BIG_MAP,
    CONFIG_MAPS,
    DENY,
    EXPENSIVE,
    IGNORE,
    ONE_CHECK,
    TWO_CHECKS,
    Ask,
    Case,
    Json,
    validating,
)

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
    yield validating("message-lines", "object.data.a == '2' &&\n  object.data.a\n  == '3'\n")
    yield validating("message-blanks", "  object.data.a == '2'  ")
    yield validating(
        "message-authorizer",
        {"expression": "false", "messageExpression": "variables.may", "message": "m"},
        variables=[{"name": "may", "expression": "string(" + ONE_CHECK + ")"}],
    )


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
    yield validating("reason-error", {"expression": "object.data.x == '1'", "reason": "Forbidden"})
    yield validating("first-of-three", "true", {"expression": "false", "message": "one"}, "false")
    yield validating("error-first", "object.data.x == '1'", {"expression": "false", "message": "one"})


def actions() -> Iterator[Case]:
    """What follows from what, by the binding's actions and the failurePolicy."""
    situations: dict[str, Json] = {
        "violation": {"validations": [{"expression": "false", "message": "no"}]},
        "two": {"validations": [{"expression": "false", "message": "no"}, {"expression": "1 > 2"}]},
        "error": {"validations": [{"expression": "object.data.x == '1'"}]},
        "error-ignored": {"validations": [{"expression": "object.data.x == '1'"}], **IGNORE},
        "mixed-ignored": {"validations": [{"expression": "object.data.x == '1'"}, {"expression": "false"}], **IGNORE},
        "match": {
            "validations": [{"expression": "true"}],
            "matchConditions": [{"name": "c", "expression": "object.data.x == '1'"}],
        },
        "match-ignored": {
            "validations": [{"expression": "false"}],
            "matchConditions": [{"name": "c", "expression": "object.data.x == '1'"}],
            **IGNORE,
        },
        "annotation": {"auditAnnotations": [{"key": "k", "valueExpression": "string(object.data.x)"}]},
        "annotation-ignored": {
            "auditAnnotations": [{"key": "k", "valueExpression": "string(object.data.x)"}],
            **IGNORE,
        },
    }
    missing: Json = {"validations": [{"expression": "false"}], "paramKind": CONFIG_MAPS}
    chosen = (["Deny"], ["Warn"], ["Audit"], ["Deny", "Audit"], ["Warn", "Audit"])
    for (name, spec), action in product(situations.items(), chosen):
        label = "-".join(action).lower()
        yield validating(f"actions-{name}-{label}", bindings=[{"validationActions": action}], **spec)
    for policy, found, action in product(("Fail", "Ignore"), ("Deny", "Allow"), chosen[:3]):
        reference = {"name": "nowhere", "parameterNotFoundAction": found}
        yield validating(
            f"actions-missing-{policy}-{found}-{action[0]}".lower(),
            bindings=[{"validationActions": action, "paramRef": reference}],
            failurePolicy=policy,
            **missing,
        )
    yield validating(
        "actions-bindings",
        {"expression": "false", "message": "no"},
        bindings=[DENY, {"validationActions": ["Warn"]}, {"validationActions": ["Audit"]}],
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
    over = f"{TWO_CHECKS} && {ONE_CHECK}"
    yield validating("conditions-cost", "false", matchConditions=[{"name": "c", "expression": over}])
    yield validating(
        "conditions-cost-false",
        "false",
        matchConditions=[{"name": "c", "expression": over}, {"name": "d", "expression": "false"}],
    )


def variables() -> Iterator[Case]:
    """Variables: only evaluated where they are read, once, each with a limit of its own."""
    failing = {"name": "bad", "expression": "object.data.x"}
    good = {"name": "good", "expression": "object.data.a"}
    both = [failing, good]
    yield validating("variables-lazy", "variables.good == '2'", variables=both)
    yield validating("variables-error", "variables.bad == '2'", variables=both)
    yield validating("variables-absorbed", "variables.bad == '2' || variables.good == '1'", variables=both)
    yield validating("variables-has", "!has(variables.good)", variables=both)
    chain = [*both, {"name": "next", "expression": "variables.bad + 'x'"}]
    yield validating("variables-chain", "variables.next == ''", variables=chain)
    listed = [{"name": "items", "expression": "['a', 'b', string(object.data.a)]"}]
    yield validating("variables-list", "variables.items.all(i, i != '1')", variables=listed)
    yield validating(
        "variables-message",
        {"expression": "false", "messageExpression": "variables.text"},
        variables=[{"name": "text", "expression": "'a is ' + string(object.data.a)"}],
    )
    yield validating(
        "variables-message-error",
        {"expression": "false", "messageExpression": "string(variables.bad)", "message": "fallback"},
        variables=both,
    )
    over = {"name": "dear", "expression": f"{TWO_CHECKS} && {ONE_CHECK}"}
    yield validating("variables-cost", "variables.dear", variables=[over])
    many = [{"name": f"v{index}", "expression": TWO_CHECKS} for index in range(15)]
    for count in (14, 15):
        text = " && ".join(f"variables.v{index}" for index in range(count)) + " && false"
        yield validating(f"variables-budget-{count}", text, variables=many)
    yield validating("variables-twice", "variables.v1 && variables.v1", "!variables.v1", variables=many)
    yield validating(
        "variables-params",
        "variables.limit == '1'",
        variables=[{"name": "limit", "expression": "params.data.limit"}],
        paramKind=CONFIG_MAPS,
        bindings=[DENY | {"paramRef": {"name": "five", "parameterNotFoundAction": "Deny"}}],
    )


def budgets() -> Iterator[Case]:
    """What an evaluation may cost: one expression, all validations, all messages, all annotations."""
    over = f"{TWO_CHECKS} && {ONE_CHECK}"
    for policy in ("Fail", "Ignore"):
        given: Any = {"failurePolicy": policy}
        name = policy.lower()
        yield validating(f"budget-expression-{name}", over, **given)
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
    yield validating("budget-warn", *([TWO_CHECKS] * 15), bindings=[{"validationActions": ["Warn"]}])
    two = f"{EXPENSIVE} && {EXPENSIVE} || {EXPENSIVE} ? 'a' : 'b'"
    dear = {"expression": "false", "messageExpression": two, "message": "fallback"}
    yield validating("budget-message-expression", dear, asks=[BIG_MAP])


def warned() -> Iterator[Case]:
    """Warnings: each text once, none with control characters, cut once there are too many."""
    warn = {"validationActions": ["Warn"]}
    for count, size in ((3, 40), (17, 240), (20, 400), (40, 100), (45, 100), (60, 200)):
        given = [{"expression": "false", "message": f"{index:02d}".ljust(size, "w")} for index in range(count)]
        yield validating(f"warned-{count}-{size}", *given, bindings=[warn])
    yield validating("warned-twice", *([{"expression": "false", "message": "same"}] * 3), bindings=[warn, warn])
    yield validating("warned-lines", "object.data.a ==\n'2'", {"expression": "false", "message": "ok"}, bindings=[warn])
    yield validating(
        "warned-unicode",
        {"expression": "false", "messageExpression": "'gr\u00fc\u00df \"x\" \\\\ \u2603'"},
        bindings=[warn],
    )
    yield validating("warned-tab", {"expression": "false", "messageExpression": "'a\\tb'"}, bindings=[warn])


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
    yield validating(
        "annotated-params",
        auditAnnotations=[{"key": "k", "valueExpression": "'size ' + string(params.data.limit.size())"}],
        paramKind=CONFIG_MAPS,
        bindings=[
            {
                "validationActions": ["Audit"],
                "paramRef": {"selector": {"matchLabels": {"limit": "many"}}, "parameterNotFoundAction": "Deny"},
            }
        ],
    )
    yield validating(
        "annotated-condition",
        auditAnnotations=[{"key": "k", "valueExpression": "'x'"}],
        matchConditions=[{"name": "c", "expression": "false"}],
    )
    yield validating(
        "annotated-bindings",
        auditAnnotations=[{"key": "k", "valueExpression": "'size ' + string(params.metadata.name.size())"}],
        paramKind=CONFIG_MAPS,
        bindings=[
            DENY | {"paramRef": {"name": name, "parameterNotFoundAction": "Deny"}}
            for name in ("five", "many-1", "many-2")
        ],
    )
    for key, text in {
        "managed": "string(has(dyn(namespaceObject).metadata.managedFields))",
        "kind": "string(has(dyn(namespaceObject).kind))",
        "phase": "namespaceObject.status.phase",
        "authorizer-not-read": "'x' == 'x' || authorizer.path('/x').check('get').allowed() ? 'a' : 'b'",
    }.items():
        yield validating(f"annotated-{key}", auditAnnotations=[{"key": "k", "valueExpression": text}])
        yield validating(
            f"annotated-said-{key}",
            {"expression": "false", "messageExpression": text.split(" ||")[0]} if "authorizer" not in key else "true",
        )
    audit = {"validationActions": ["Audit"]}
    yield validating("annotated-html", {"expression": "false", "message": 'a < b & c > d \u2603 "e"'}, bindings=[audit])
    yield validating("annotated-second", "true", "object.data.a\n== '2'", "false", bindings=[audit])


CASES: tuple[Case, ...] = tuple(
    case for make in (messages, reasons, actions, conditions, variables, budgets, warned, annotated) for case in make()
)
