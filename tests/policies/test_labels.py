"""Reserved labels: what is reserved, which changes are refused, and what people read."""

import pytest
from support.builders import FACTS, WORKLOADS, Json, deployment, request, resource

from policies.engine.engine import Answer, validate
from policies.engine.match import ResourceRule
from policies.engine.request import Operation
from policies.engine.rule import Hook, Rule
from policies.engine.ruleset import RuleSet
from policies.engine.safety import Exemptions
from policies.engine.violation import More, Violation
from policies.labels import GRACEFUL, INTERRUPTABLE, LabelGuard, is_reserved

_GUARD = LabelGuard(WORKLOADS, (INTERRUPTABLE, GRACEFUL), Exemptions())
_FREE = {"qos.coreweave.cloud/interruptable": "true"}
_RESERVED = {"foo.coreweave.cloud/bar": "true"}
_SUMMARY = "Namespaces `*.coreweave.cloud` or `*.coreweave.com` are not allowed."
_OWN_PREFIX = "Label prefixes are meant. Remove these labels or use a prefix of your own, such as example.org/bar."


def _judge(
    obj: Json | None,
    old: Json | None = None,
    operation: Operation | None = None,
    sub_resource: str = "",
) -> tuple[Violation | More, ...]:
    asked = request(obj, old=old, operation=operation, sub_resource=sub_resource)
    return tuple(_GUARD.validate(asked, FACTS))


def _answer(obj: Json, old: Json | None = None) -> Answer:
    hook = Hook("validate", "labels", (ResourceRule(("*",), ("*",), ("*/*",)),), "Fail")
    rule = Rule("labels", (hook,), "deny", _GUARD.reads, validate=_GUARD.validate)
    return validate(request(obj, old=old), RuleSet([rule]), FACTS)


def _refused(path: str, found: str, problem: str = "", remedy: str = _OWN_PREFIX) -> Violation:
    return Violation("labels", path, found, problem, _SUMMARY, remedy)


@pytest.mark.parametrize(
    ("key", "reserved"),
    [
        pytest.param("coreweave.cloud/bar", True, id="domain"),
        pytest.param("coreweave.com/bar", True, id="other-domain"),
        pytest.param("foo.coreweave.cloud/bar", True, id="subdomain"),
        pytest.param("a.b.coreweave.com/bar", True, id="deep-subdomain"),
        pytest.param("coreweave.cloud/", True, id="empty-name"),
        pytest.param("foo.coreweave.cloud/a/b", True, id="two-slashes"),
        pytest.param("notcoreweave.cloud/bar", False, id="part-of-a-dns-label"),
        pytest.param("not-coreweave.com/bar", False, id="part-of-a-dns-label-by-hyphen"),
        pytest.param("coreweave.cloud.example.org/bar", False, id="not-at-the-end"),
        pytest.param("coreweave.community/bar", False, id="longer-top-level"),
        pytest.param("coreweave.org/bar", False, id="another-top-level"),
        pytest.param("coreweavexcloud/bar", False, id="dot-is-a-dot"),
        pytest.param("example.org/foo.coreweave.cloud/bar", False, id="in-the-name"),
        pytest.param("coreweave.cloud", False, id="no-prefix"),
        pytest.param("/coreweave.cloud", False, id="empty-prefix"),
        pytest.param("app", False, id="plain"),
        pytest.param("", False, id="empty"),
    ],
)
def test_what_is_reserved(key: str, reserved: bool) -> None:  # noqa: FBT001
    """A key is reserved when its prefix is one of the domains or below it, by whole DNS labels."""
    assert is_reserved(key) is reserved


@pytest.mark.parametrize(
    ("kind", "before", "after", "violations"),
    [
        pytest.param("ConfigMap", {}, {"app": "a"}, [], id="plain-label"),
        pytest.param("ConfigMap", {"app": "a"}, {"notcoreweave.cloud/x": "1"}, [], id="lookalike"),
        pytest.param(
            "ConfigMap",
            {"a.coreweave.com/kept": "1", "a.coreweave.com/changed": "1", "a.coreweave.com/gone": "1"},
            {"a.coreweave.com/kept": "1", "a.coreweave.com/changed": "2", "a.coreweave.com/new": "1"},
            [
                _refused("metadata.labels", 'a.coreweave.com/changed="2"'),
                _refused("metadata.labels", 'a.coreweave.com/new="1"'),
            ],
            id="keep-change-remove-add",
        ),
        pytest.param(
            "Node",
            {"a.coreweave.com/kept": "1", "a.coreweave.com/changed": "1", "a.coreweave.com/gone": "1", "app": "a"},
            {"a.coreweave.com/kept": "1", "a.coreweave.com/changed": "", "a.coreweave.com/new": "1"},
            [
                _refused("metadata.labels", 'a.coreweave.com/changed=""'),
                _refused(
                    "metadata.labels",
                    'a.coreweave.com/gone="1"',
                    "must not be removed",
                    "Leave these labels in place: the cluster's own controllers work by them.",
                ),
                _refused("metadata.labels", 'a.coreweave.com/new="1"'),
            ],
            id="keep-change-add-remove-on-a-node",
        ),
    ],
)
def test_changes(kind: str, before: Json, after: Json, violations: list[Violation]) -> None:
    """Every label that is added or changed is told at once, what stays passes, and removals count where they must."""
    old, new = resource("v1", kind, labels=before), resource("v1", kind, labels=after)

    assert list(_judge(new, old)) == violations
    assert list(_judge(new, old, sub_resource="status")) == violations


@pytest.mark.parametrize(
    ("obj", "old", "operation"),
    [
        pytest.param(None, resource("v1", "Node", labels=_RESERVED), "DELETE", id="delete"),
        pytest.param(resource("v1", "PodExecOptions", labels=_RESERVED), None, "CONNECT", id="connect"),
        pytest.param(None, None, "CREATE", id="no-object"),
    ],
)
def test_operations_that_write_no_labels(obj: Json | None, old: Json | None, operation: Operation) -> None:
    """Deleting and connecting are not judged, whatever labels there are."""
    assert _judge(obj, old, operation=operation) == ()


@pytest.mark.parametrize(
    ("obj", "old", "message"),
    [
        pytest.param(
            deployment(labels={"foo.coreweave.cloud/bar": "true"}, template_labels={"foo.coreweave.com/bar": "true"}),
            None,
            "Namespaces `*.coreweave.cloud` or `*.coreweave.com` are not allowed.\n"
            '  metadata.labels: foo.coreweave.cloud/bar="true"\n'
            '  spec.template.metadata.labels: foo.coreweave.com/bar="true"\n'
            "Label prefixes are meant. Remove these labels or use a prefix of your own, such as example.org/bar.",
            id="two-places",
        ),
        pytest.param(
            deployment(labels=_FREE | _RESERVED),
            None,
            "Namespaces `*.coreweave.cloud` or `*.coreweave.com` are not allowed.\n"
            '  metadata.labels: foo.coreweave.cloud/bar="true"\n'
            '  metadata.labels: qos.coreweave.cloud/interruptable="true" has no effect on any Pod here\n'
            "Label prefixes are meant. Remove these labels or use a prefix of your own, such as example.org/bar.\n"
            "Put qos.coreweave.cloud/interruptable at spec.template.metadata.labels.",
            id="two-remedies",
        ),
        pytest.param(
            resource("v1", "Node", labels={}),
            resource("v1", "Node", labels=_RESERVED),
            "Namespaces `*.coreweave.cloud` or `*.coreweave.com` are not allowed.\n"
            '  metadata.labels: foo.coreweave.cloud/bar="true" must not be removed\n'
            "Leave these labels in place: the cluster's own controllers work by them.",
            id="removal",
        ),
    ],
)
def test_the_whole_message(obj: Json, old: Json | None, message: str) -> None:
    """A person reads the documented sentence first, then every key with its path, then what to do."""
    answer = _answer(obj, old)

    assert (answer.allowed, answer.message) == (False, message)
