"""AdmissionReview bytes: what is read from a call, and what an answer is made of."""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from support.builders import FACTS, TODAY, WORKLOADS, Json, pod, request, resource
from support.service.reviews import CPU_TOLERATION, UID, answer_of, body, review, violation

from policies.engine.engine import ADMITTED, Answer, Decision, RuleFailure, validate
from policies.engine.match import ResourceRule
from policies.engine.rule import Hook, Note, PolicyException, Rule, RuleSet
from policies.engine.safety import Exemptions
from policies.engine.violation import FORBIDDEN, Status, Violation
from policies.labels import GRACEFUL, INTERRUPTABLE, USE_OWN_PREFIX, LabelGuard
from webhook.http.review import Decoder, ReviewError, encode

_DECODER = Decoder({"metadata", "spec"})
_POD = pod(labels={"app": "a"}, metadata={"namespace": "default"})
_OPTIONS = {"apiVersion": "v1", "kind": "PodExecOptions"}
_RESOURCE = {"group": "", "version": "v1", "resource": "pods"}
_EXEC = {"subResource": "exec", "requestSubResource": "exec", "name": "x"}
_ABSENT = {
    **dict.fromkeys(("subResource", "name", "namespace", "requestSubResource"), ""),
    **dict.fromkeys(("object", "oldObject", "options", "requestKind", "requestResource")),
}
_NOBODY: Json = {"username": "", "uid": "", "groups": [], "extra": {}}


def _decode(sent: str) -> Json:
    """The request as rules see it, in the names of the API."""
    decoded: Json = json.loads(msgspec.json.encode(_DECODER.decode(sent.encode())))
    return {**decoded, "dryRun": bool(decoded["dryRun"])}


def _filled(values: Json, absent: Json) -> Json:
    """Values by the known names, where one that is absent or null has its zero value."""
    return {**absent, **{name: value for name, value in values.items() if value is not None and name != "new"}}


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(review(_POD), id="create"),
        pytest.param(review(_POD, {**_POD, "spec": {}}), id="update"),
        pytest.param(review(None, _POD, operation="DELETE"), id="delete"),
        pytest.param(review(_OPTIONS, operation="CONNECT", resource=_RESOURCE, **_EXEC), id="connect"),
        pytest.param(review(None, operation="CONNECT", name="trainer"), id="connect-without-object"),
        pytest.param(review(_POD, _POD, subResource="status"), id="subresource"),
        pytest.param(review(_POD, dryRun=True), id="dry-run"),
        pytest.param(review({**_POD, "metadata": {"generateName": "trainer-"}}, name=""), id="generate-name"),
        pytest.param(review({**_POD, "metadata": {"name": "x"}}, namespace="team"), id="no-namespace-in-the-object"),
        pytest.param(review(_POD, new={"a": [1, None]}, userInfo={"username": "alice", "new": {}}), id="new-fields"),
        pytest.param(review(_POD, dryRun=None), id="dry-run-null"),
        pytest.param(review(_POD, userInfo=None), id="user-null"),
        pytest.param(
            review(_POD, **(_ABSENT | dict.fromkeys(_ABSENT) | {"object": _POD}), userInfo=dict.fromkeys(_NOBODY)),
            id="nulls",
        ),
    ],
)
def test_a_good_review_is_decoded(sent: Json) -> None:
    """Each field arrives under its own name, whatever the operation; one that is absent or null has its zero value."""
    request = sent["request"]
    present = {**sent, "request": {key: value for key, value in request.items() if value is not None}}
    user = _filled(request["userInfo"] or {}, _NOBODY)
    expected = {**_filled(request, _ABSENT), "userInfo": user, "dryRun": bool(request["dryRun"])}

    for written in (json.dumps(sent), json.dumps(present), f" \r\n\t{json.dumps(sent, indent=2)}\n"):
        assert _decode(written) == expected


@pytest.mark.parametrize(
    ("written", "twice"),
    [
        pytest.param('"uid": "7', '"uid": "first", "uid": "7', id="uid"),
        pytest.param('"object": {', '"object": null, "object": {', id="object-null-first"),
        pytest.param('"metadata": {', '"metadata": [], "metadata": {', id="metadata-no-map-first"),
        pytest.param('"labels": {"app": "a"}', '"labels": {"old": "x"}, "labels": {"app": "a"}', id="labels"),
        pytest.param('"app": "a"', '"app": "first", "app": "a"', id="label"),
        pytest.param('"spec": {', '"spec": "first", "spec": {', id="spec"),
        pytest.param('"operation": "CREATE"', '"operation": "DELETE", "operation": "CREATE"', id="operation"),
    ],
)
def test_of_duplicate_keys_the_last_wins(written: str, twice: str) -> None:
    """A key that stands twice has its last value, as in the API server's decoder."""
    sent = body(_POD).decode()
    assert sent.count(written) == 1

    assert _decode(sent.replace(written, twice)) == _decode(sent)


def test_a_deep_object_that_is_no_bomb_is_decoded() -> None:
    """Two hundred levels, more than any API type has, are no trouble."""
    deep: Any = "x"
    for _ in range(100):
        deep = [{"a": deep}]

    assert _DECODER.decode(body({"spec": deep})).object == {"spec": deep}


_NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
_SIMPLE = st.none() | st.booleans() | _NUMBERS | st.text(max_size=8)
_VALUES = st.recursive(
    _SIMPLE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_NAMES = ("name", "generateName", "namespace", "uid")
_KEPT = (*_NAMES, "labels", "annotations", "ownerReferences", "deletionTimestamp", "finalizers")
_METADATA = st.fixed_dictionaries({}, optional=dict.fromkeys(_KEPT, _VALUES)) | _SIMPLE | st.lists(_SIMPLE)


@settings(max_examples=200)
@example(metadata="x", spec="all", name="Zürich \N{GRINNING FACE} \x00 \u2028", ascii_only=False)
@example(metadata={"labels": ["a.coreweave.cloud/b"]}, spec=[1, 2.5, True, None], name="", ascii_only=True)
@given(metadata=_METADATA, spec=_VALUES, name=st.text(max_size=20), ascii_only=st.booleans())
def test_what_is_sent_is_what_rules_see(metadata: Any, spec: Any, name: str, *, ascii_only: bool) -> None:
    """Whatever the fields that rules read hold, even of the wrong shape, and however it is written, it arrives so."""
    obj = {"metadata": metadata, "spec": spec}
    sent = json.dumps(review(obj, obj, name=name, namespace=name), ensure_ascii=ascii_only).encode()

    decoded = _DECODER.decode(sent)

    assert (decoded.object, decoded.old_object) == (obj, obj)
    assert (decoded.name, decoded.namespace) == (name, name)


_GOOD = body(pod(labels={"app": "a"}), pod())
_NO_JSON = "The body is not JSON: {}. Send an AdmissionReview of admission.k8s.io/v1."
_TOO_DEEP = "The body is nested too deeply to be read."
_DEEP = 200_000
_CALLS: dict[str, Json] = yaml.safe_load(Path(__file__).with_name("calls.yaml").read_text(encoding="utf-8"))


def _text(sent: bytes) -> str:
    """What the caller reads; the status is 400."""
    with pytest.raises(ReviewError) as caught:
        _DECODER.decode(sent)
    assert caught.value.status == 400
    return str(caught.value)


@pytest.mark.parametrize("case", _CALLS)
def test_what_is_no_good_review_is_refused(case: str) -> None:
    """Each is told what it is, or which field is wrong and what was found; calls.yaml has all of them."""
    call = _CALLS[case]
    good = review(pod())
    request = {key: value for key, value in good["request"].items() if key != call.get("without")}
    sent = json.dumps({**good, "request": {**request, **call.get("request", {})}, **call.get("review", {})})

    assert _text(call.get("body", sent).encode()) == call["text"]


def _damaged(old: bytes, new: bytes) -> bytes:
    return _GOOD.replace(old, new, 1)


@pytest.mark.parametrize(
    ("sent", "cause"),
    [
        pytest.param(b"", "Input data was truncated", id="empty"),
        pytest.param(b"a: b\n", "JSON is malformed: invalid character (byte 0)", id="yaml"),
        pytest.param(_GOOD.decode().encode("utf-16"), "JSON is malformed: invalid character (byte 0)", id="utf-16"),
        pytest.param(_GOOD[:-1], "Input data was truncated", id="cut-off"),
        pytest.param(
            _GOOD + b"\0", f"JSON is malformed: trailing characters (byte {len(_GOOD) + 1})", id="something-behind"
        ),
        pytest.param(
            _damaged(b'"app"', b'"a\0p"'),
            f"JSON is malformed: invalid character (byte {_GOOD.index(b'app') + 1})",
            id="nul-in-a-key",
        ),
        pytest.param(
            _damaged(b'"app"', b'"a\xffp"'),
            "'utf-8' codec can't decode byte 0xff in position 1: invalid start byte",
            id="no-utf-8-in-a-key",
        ),
        pytest.param(
            _damaged(b'"alice"', b'"\xc3"'),
            "'utf-8' codec can't decode byte 0xc3 in position 0: unexpected end of data",
            id="cut-off-character",
        ),
        pytest.param(
            _damaged(UID.encode(), b"\xed\xa0\x80"),
            "'utf-8' codec can't decode byte 0xed in position 0: invalid continuation byte",
            id="raw-surrogate-in-the-uid",
        ),
        # What breaks off after the first mistake in it is still only a bad call.
        pytest.param(b'{"request": null', "Input data was truncated", id="cut-off-behind-a-null-request"),
        pytest.param(b'{"request": null, x}', "JSON is malformed: object keys must be strings (byte 18)", id="no-key"),
        pytest.param(
            b'{"request": null, "kind": "\xff"}',
            "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
            id="no-text-behind-a-null-request",
        ),
    ],
)
def test_what_is_no_json_is_refused(sent: bytes, cause: str) -> None:
    """The refusal says why, and with bytes that are no text where they stand."""
    assert _text(sent) == _NO_JSON.format(cause)


def _inside(depth: int) -> list[Any]:
    arrays, objects = "[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth
    good = body(pod(labels={"app": "a"}), pod()).decode()
    places = {
        "spec": ('"object": {"apiVersion": "v1", ', '"object": {"apiVersion": "v1", "spec": %s, '),
        "skipped": ('"object": {"apiVersion": "v1", ', '"object": {"apiVersion": "v1", "status": %s, '),
        "labels": ('"app": "a"', '"app": %s'),
        "old-object": ('"oldObject": {"apiVersion": "v1", ', '"oldObject": {"apiVersion": "v1", "spec": %s, '),
        "options": ('"options": {', '"options": {"x": %s, '),
        "top": ('"apiVersion": "admission.k8s.io/v1"', '"apiVersion": "admission.k8s.io/v1", "x": %s'),
    }
    return [
        pytest.param(good.replace(written, deep % bomb, 1).encode(), id=f"{name}-in-{place}")
        for place, (written, deep) in places.items()
        for name, bomb in (("arrays", arrays), ("objects", objects))
    ]


@pytest.mark.parametrize(
    "sent",
    [
        *_inside(_DEEP),
        pytest.param(_inside(_DEEP)[0].values[0].replace(b"k8s.io/v1", b"k8s.io/v2"), id="arrays-in-spec-of-v2"),
        pytest.param(b'{"a":' * _DEEP, id="objects-alone"),
        pytest.param(b'{"request":' * _DEEP, id="requests"),
        pytest.param(b'{"x":' + b"[" * _DEEP, id="arrays-alone"),
    ],
)
def test_a_depth_bomb_is_refused(sent: bytes) -> None:
    """Nesting without end is refused wherever it stands, in fields that nobody reads too, before it costs anything."""
    assert _text(sent) == _TOO_DEEP


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(r"\ud800", id="high"),
        pytest.param(r"\ud800x", id="high-before-a-letter"),
        pytest.param(r"\ud800\ud800", id="high-twice"),
        pytest.param(r"\udc00", id="low"),
        pytest.param(r"x\udc00\ud800", id="low-before-high"),
    ],
)
@pytest.mark.parametrize("field", ["app", "alice", UID])
def test_a_lone_surrogate_is_refused(written: str, field: str) -> None:
    """Half a surrogate pair is no character: the refusal says so, whichever field it stands in."""
    text = _text(_GOOD.replace(field.encode(), written.encode(), 1))

    assert text.startswith("The body is not JSON: ")
    assert "surrogate" in text


_ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def _paths(value: Any, at: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every place in a JSON value, its own first."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(path for key, child in children for path in _paths(child, (*at, key)))]


_REVIEW: Json = review(pod({"nvidia.com/gpu": 1}, labels={"app": "a"}), pod())


def _replaced(path: tuple[str | int, ...], value: Any) -> bytes:
    """The good review with another value in a place."""
    holder = {"": json.loads(json.dumps(_REVIEW))}
    parent: Any = holder
    *above, last = ("", *path)
    for step in above:
        parent = parent[step]
    parent[last] = value
    return json.dumps(holder[""]).encode()


_ANY_CALL = (
    st.binary(max_size=200)
    | st.text(alphabet='{}[]",:\\ue+-.0123456789nultrfas ', max_size=40).map(str.encode)
    | st.builds(_replaced, st.sampled_from(_paths(_REVIEW)), _ANY_JSON)
    | st.builds(
        lambda start, length, instead: _GOOD[:start] + instead + _GOOD[start + length :],
        st.integers(0, len(_GOOD)), st.integers(0, 40), st.binary(max_size=6),
    )
)  # fmt: skip


@settings(max_examples=1200)
@given(_ANY_CALL)
def test_any_call_leads_to_a_review_error_at_worst(sent: bytes) -> None:
    """Any bytes, and a good review with a part cut out or another value in any place, are read or refused."""
    with suppress(ReviewError):
        assert _DECODER.decode(sent).uid


_ADD = {"op": "add", "path": "/spec/tolerations", "value": [CPU_TOLERATION]}
_MOVING = PolicyException("moving", ("tidy",), "new\nhouse", TODAY)
_INVALID, _UNAUTHORIZED = Status("Invalid", 422), Status("Unauthorized", 401)
_LOST = FileNotFoundError("no map")


_LOST_RULE = Decision("lost", "error", failure=RuleFailure(_LOST, "Fail"))
_ANSWERS_BY_CASE: dict[str, Answer] = {
    "no-rule-ran": ADMITTED,
    "admitted": Answer((Decision("labels", "admit"), Decision("tidy", "admit"))),
    "audited-without-a-place": Answer((Decision("tidy", "audit", (violation(path=""), violation(path="spec.x"))),)),
    "patched-with-warnings": Answer((Decision("tolerations", "patch"),), (_ADD,), ("one", "two")),
    "refused": Answer((Decision("tidy", "deny", (violation(), violation(path="spec.x", value="3"))),)),
    "refused-twice-at-one-path": Answer((Decision("tidy", "deny", (violation(), violation(value='"y"'))),)),
    "warned": Answer((Decision("tidy", "warn", (violation(),)),), (), ('metadata.name: "x" is untidy',)),
    "audited": Answer((Decision("tidy", "audit", (violation(),)),)),
    "excepted": Answer((Decision("tidy", "excepted", (violation(),), exception=_MOVING),)),
    "refused-since-an-exception-ended": Answer((Decision("tidy", "deny", (violation(),), exception=_MOVING),)),
    "kubectl-shows-only-causes": Answer(
        (Decision("tidy", "deny", (replace(violation(), status=_INVALID),), exception=_MOVING),)
    ),
    "refused-as-the-first-validation-says": Answer(
        (
            Decision("tidy", "deny", (replace(violation(path="a"), status=_INVALID, position=1),)),
            Decision("tidy", "deny", (replace(violation(path="b"), status=_UNAUTHORIZED),)),
        )
    ),
    "failed-with-fail": Answer((_LOST_RULE,)),
    "failed-with-ignore": Answer(
        (Decision("lost", "error", failure=RuleFailure(_LOST, "Ignore")),), (), ("rule 'lost' was skipped",)
    ),
    "refused-and-failed": Answer((_LOST_RULE, Decision("tidy", "deny", (violation(),)))),
    "a-refusal-drops-the-patch": Answer((Decision("tolerations", "patch"), _LOST_RULE), (_ADD,)),
}
_RESPONSES: dict[str, Json] = yaml.safe_load(Path(__file__).with_name("answers.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", _ANSWERS_BY_CASE)
def test_an_answer_is_encoded(case: str) -> None:
    """The whole answering review is as the API expects it, its patch in base64; answers.yaml has all of them."""
    uid = f'{UID} "\\\x00ü\n'
    found = answer_of(encode(uid, _ANSWERS_BY_CASE[case]))
    if "patch" in found:
        found["patch"] = json.loads(base64.b64decode(found["patch"], validate=True))

    assert found == {"uid": uid, **_RESPONSES[case]}


def test_a_long_audit_annotation_is_cut() -> None:
    """The audit log gets the first 1024 characters of the paths."""
    violations = tuple(violation(path=f"spec.containers[{index}].name") for index in range(200))

    found = answer_of(encode(UID, Answer((Decision("tidy", "deny", violations),))))

    whole = "deny: " + ", ".join(violation.path for violation in violations)
    assert found["auditAnnotations"] == {"tidy": whole[:1024]}


_GUARD = LabelGuard(WORKLOADS, (INTERRUPTABLE, GRACEFUL), Exemptions())
_HOOK = Hook("validate", "labels", (ResourceRule(("*",), ("*",), ("*/*",)),), "Fail")
_LARGEST = 20_000
"""Bytes of the longest answer: 8 KiB of message, in causes once more, warnings and audit annotations."""


def _guarded(obj: Json) -> tuple[Answer, bytes]:
    rule = Rule("labels", (_HOOK,), "deny", _GUARD.reads, validate=_GUARD.validate)
    answer = validate(request(obj), RuleSet([rule]), FACTS)
    return answer, encode(UID, answer)


def _job_set(templates: list[Json]) -> Json:
    spec = {"replicatedJobs": [{"template": {"spec": {"template": template}}} for template in templates]}
    return resource("jobset.x-k8s.io/v1alpha2", "JobSet", {"spec": spec})


def test_a_refusal_shows_the_first_violations_and_counts_the_others() -> None:
    """Of 80,000 reserved labels the refusal shows the first 20 in their order, then how many more there are."""
    labels = {f"k{number:05}.coreweave.cloud/x": "1" for number in reversed(range(80_000))}

    answer, reply = _guarded(resource("v1", "ConfigMap", labels=labels))

    assert answer_of(reply)["status"]["message"] == "\n".join(
        [
            "Namespaces `*.coreweave.cloud` or `*.coreweave.com` are not allowed.",
            *(f'  metadata.labels: k{number:05}.coreweave.cloud/x="1"' for number in range(20)),
            "  and 79980 more",
            USE_OWN_PREFIX,
        ]
    )
    ((shown, more),) = [(len(decision.violations), decision.more) for decision in answer.decisions]
    assert (shown, more) == (20, 79_980)
    assert answer_of(reply)["auditAnnotations"] == {"labels": "deny: metadata.labels and 79980 more"}


_RESERVED = "a.coreweave.cloud/b"


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param(resource("v1", "ConfigMap", labels={f"{_RESERVED}{'k' * 10**6}": "v" * 10**6}), id="key"),
        pytest.param(
            resource("v1", "Node", labels={f"{n}.coreweave.com/{'k' * 9000}": "" for n in range(50)}), id="keys"
        ),
        pytest.param(_job_set([{"metadata": {"labels": {_RESERVED: str(n)}}} for n in range(2000)]), id="places"),
        pytest.param(resource("v1", "ConfigMap", labels="x" * 10**6), id="no-map"),
    ],
)
def test_a_refusal_is_short_whatever_the_object_holds(obj: Json) -> None:
    """No key, value, path or number of places makes the answer long."""
    answer, reply = _guarded(obj)

    assert not answer.allowed
    assert len(reply) < _LARGEST


@pytest.mark.parametrize("status", [FORBIDDEN, Status("Invalid", 422)], ids=lambda status: status.reason)
@pytest.mark.parametrize("verdict", ["deny", "warn", "audit", "excepted"])
def test_answers_of_many_rules_are_bounded_together(verdict: Any, status: Status) -> None:
    """Eighty rules with long messages answer in as little as one."""

    def found(rule: str) -> tuple[Violation, ...]:
        return tuple(
            Violation(rule, f"spec.{number}", "7" * 500, "is odd", f"{rule} says no.", "Do not. " * 60, "", status)
            for number in range(20)
        )

    answer = Answer(tuple(Decision(f"r{n}", verdict, found(f"r{n}"), more=1000) for n in range(80)))

    reply = encode(UID, answer)

    annotations = sum(map(len, answer_of(reply).get("auditAnnotations", {}).values()))
    assert len(reply) - annotations < _LARGEST
    assert annotations <= 80 * 1024
    if (verdict, status.reason) == ("deny", "Invalid"):
        causes = answer_of(reply)["status"]["details"]["causes"]
        assert causes[-1] == {"message": f"and {80 * 1020 - (len(causes) - 1)} more"}


def test_the_text_of_a_failure_is_bounded() -> None:
    """A rule that fails with a long text is told in a short one."""
    failure = RuleFailure(ValueError("x" * 10**6), "Fail")

    reply = encode(UID, Answer((Decision("r", "error", failure=failure),)))

    assert len(reply) < _LARGEST


def test_what_policies_publish_is_bounded() -> None:
    """Values of audit annotations past 64 KiB in all are left out, and say so."""
    notes = tuple(Note(f"p/{number}", "x" * 30_000) for number in range(4))

    published = answer_of(encode(UID, Answer((Decision("p", "admit", notes=notes),))))["auditAnnotations"]

    left_out = "left out: the audit annotations of one review have 65536 characters at most"
    assert published == {"p": "admit", "p.0": "x" * 30_000, "p.1": "x" * 30_000, "p.2": left_out, "p.3": left_out}


class _Counted(str):
    """A label value that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        type(self).compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_copies_of_a_label_are_found_with_linear_work() -> None:
    """Whether a workload's label is a copy of a template's is found with a few comparisons for each template."""
    key, count = "qos.coreweave.cloud/interruptable", 400
    obj = _job_set([{"metadata": {"labels": {key: _Counted(number)}}} for number in range(count)])
    for job in obj["spec"]["replicatedJobs"]:
        job["template"]["metadata"] = {"labels": {key: "true"}}
    _Counted.compared = 0

    _guarded(obj)

    assert _Counted.compared <= 4 * count
