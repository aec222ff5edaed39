"""Mutating webhooks of others."""

from __future__ import annotations

from typing import Any

import pytest
from support.builders import Json

from policies.labelwriters import LabelWriter
from webhook.doctor.configurations import check_others, check_writers

from .findings import FORBIDDEN, settings, told

_MUTATING = "MutatingWebhookConfiguration"


def _rule(group: str, *resources: str, version: str = "v1", operations: tuple[str, ...] = ("CREATE",)) -> Json:
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": list(operations),
        "resources": list(resources),
        "scope": "*",
    }


def _own(reinvocation: str = "IfNeeded") -> Json:
    entries = [
        {"name": "pods.cks-admission.dev", "rules": [_rule("", "pods")], "reinvocationPolicy": reinvocation},
        {
            "name": "workloads.cks-admission.dev",
            "rules": [_rule("apps", "deployments", "statefulsets", version="*", operations=("CREATE", "UPDATE"))],
            "reinvocationPolicy": reinvocation,
        },
    ]
    return {"kind": _MUTATING, "webhooks": entries}


def _other(name: str, rule: Json, kind: str = _MUTATING) -> Json:
    return {"kind": kind, "metadata": {"name": name}, "webhooks": [{"name": "x.example.org", "rules": [rule]}]}


def _check(*others: Json, reinvocation: str = "IfNeeded") -> list[tuple[str, str, str, str]]:
    return told(check_others(_own(reinvocation), list(others), "cks-admission"))


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(_other("z", _rule("", "services")), id="another resource"),
        pytest.param(_other("z", _rule("", "pods", operations=("DELETE",))), id="another operation"),
        pytest.param(_other("z", _rule("", "pods/exec")), id="a subresource"),
        pytest.param(_other("z", _rule("", "pods"), "ValidatingWebhookConfiguration"), id="nothing is changed"),
    ],
)
def test_who_changes_something_else(other: Json) -> None:
    """Only those count that may change what the service changes."""
    assert _check(other) == [
        ("ok", "MutatingWebhookConfigurations", "no other webhook changes what the service changes", "")
    ]


def test_who_comes_first() -> None:
    """What others changed before is what the service sees."""
    assert _check(_other("a", _rule("*", "*"))) == [
        ("ok", f"{_MUTATING} a", "it may change pods, deployments, statefulsets before the service does", "")
    ]


def test_who_comes_later() -> None:
    """The service is asked again, unless its entries do not ask for that: then its work may be undone."""
    istio = _other("istio", _rule("", "pods"))

    assert _check(istio) == [
        ("ok", f"{_MUTATING} istio", "it may change pods after the service, which is then called again", "")
    ]
    assert _check(istio, reinvocation="Never") == [
        (
            "warning",
            f"{_MUTATING} istio",
            "it may change pods after the service, which is not called again by pods.cks-admission.dev",
            (
                "give it a name that sorts before cks-admission, or make sure that it does not change "
                "what the service writes"
            ),
        )
    ]


def test_what_may_not_be_looked_at() -> None:
    """Without the right nothing is known of others."""
    unseen: Any = told(check_others(_own(), FORBIDDEN, "cks-admission"))
    assert unseen[0][:2] == ("unknown", "other webhook configurations")


_REMEDY = "remove it, or name it in labels.trusted if it is the cloud's"


def test_what_can_write_labels() -> None:
    """A policy that names reserved labels is a problem; definitions share a line."""
    writers = [
        LabelWriter("MutatingAdmissionPolicy", "a", "reserved", "its expressions name reserved labels: x"),
        *(LabelWriter("CustomResourceDefinition", name, "possible", "its webhook may") for name in ("c", "d")),
    ]

    assert told(check_writers(writers, settings())) == [
        ("problem", "MutatingAdmissionPolicy a", "its expressions name reserved labels: x", _REMEDY),
        (
            "warning",
            "CustomResourceDefinitions",
            "conversion webhooks may change the labels of c, d after admission",
            "name those in labels.trusted that are the cloud's",
        ),
    ]


def test_nothing_can_write_labels() -> None:
    """That is told, unless the guard is off; what could not be read is told, too."""
    text = "no policy and no conversion can write labels past the guard"
    where = "mutating policies and definitions"

    assert told(check_writers([], settings())) == [("ok", where, text, "")]
    assert told(check_writers([], settings(labels={"action": "off"}))) == []
    assert told(check_writers(FORBIDDEN, settings())) == [
        (
            "unknown",
            where,
            "not checked: the current account may not list things",
            "use an account that may list things",
        )
    ]
