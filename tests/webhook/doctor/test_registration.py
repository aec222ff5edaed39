"""Whether the webhook configurations are there and as they should be."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from support.builders import Json

from webhook.configuration import rules
from webhook.doctor.configurations import check_registration
from webhook.doctor.observation import Unread
from webhook.registration.configurations import registered

from .findings import FORBIDDEN, settings, told

_KIND = "ValidatingWebhookConfiguration"
_WHERE = f"{_KIND} cks-admission"
_APPLIED = (
    'the service repairs it after being ready for 10 s; if it does not, look for "not registered" or '
    '"undone" in its log'
)
_BY_HAND = "apply it again: cks-admission export webhook-configuration | kubectl apply --server-side -f -"
_NOT_SO = "it differs from the settings: "


def _wanted() -> Json:
    chosen = settings(topology={"action": "off"}, sunk={"action": "off"})
    found = {str(each["kind"]): each for each in registered(chosen, b"", rules.build(chosen))}
    return found[_KIND]


def _observed(change: Callable[[Json], object] = lambda _: None) -> Json:
    """The configuration as the API server has it, after a change."""
    found = copy.deepcopy(_wanted())
    found["metadata"] |= {"uid": "1", "managedFields": [{"manager": "cks-admission", "time": "2026-03-01T12:00:00Z"}]}
    for entry in found["webhooks"]:
        entry["clientConfig"]["caBundle"] = "Q0E="
    change(found)
    return found


def _check(observed: Json | Unread | None, wanted: Any = ..., **registration: Any) -> list[tuple[str, str, str, str]]:
    chosen = settings(registration=registration).registration
    return told(check_registration(_KIND, _wanted() if wanted is ... else wanted, observed, chosen))


def test_what_is_as_it_should_be() -> None:
    """The caBundle is another check's, and what clouds add to namespaceSelectors may stay."""

    def cloud(found: Json) -> None:
        added = {"key": "control-plane", "operator": "NotIn", "values": ["true"]}
        found["webhooks"][0]["namespaceSelector"]["matchExpressions"].append(added)

    number = len(_wanted()["webhooks"])
    assert _check(_observed()) == [("ok", _WHERE, f"{number} entries, as in the settings", "")]
    kept = [{"key": "control-plane", "values": ["true"]}]
    assert _check(_observed(cloud), kept=kept) == _check(_observed())
    assert _check(_observed(cloud))[0][0] == "problem"


def _opted_out(found: Json) -> None:
    found["webhooks"][0]["objectSelector"] = {"matchLabels": {"a": "b"}}


def _softened(found: Json) -> None:
    found["webhooks"][0]["failurePolicy"] = "Ignore"
    found["metadata"]["managedFields"].append({"manager": "kubectl-edit", "time": "2026-03-01T13:00:00Z"})


def _shortened(found: Json) -> None:
    del found["webhooks"][0]


def _left_over(found: Json) -> None:
    found["webhooks"].append({**found["webhooks"][0], "name": "old.cks-admission.dev"})


def _elsewhere(found: Json) -> None:
    found["webhooks"][0]["clientConfig"]["service"]["name"] = "other"


@pytest.mark.parametrize(
    ("change", "line"),
    [
        pytest.param(_opted_out, "labels.cks-admission.dev: objectSelector", id="objectSelector"),
        pytest.param(
            _softened,
            "labels.cks-admission.dev: failurePolicy is Ignore, not Fail; "
            "last written by kubectl-edit at 2026-03-01T13:00:00Z",
            id="failurePolicy, and who did it",
        ),
        pytest.param(_shortened, "labels.cks-admission.dev: missing", id="an entry is missing"),
        pytest.param(_left_over, "old.cks-admission.dev: not wanted", id="an entry is left over"),
        pytest.param(_elsewhere, "labels.cks-admission.dev: clientConfig service", id="another Service"),
    ],
)
def test_what_is_otherwise_is_named(change: Callable[[Json], None], line: str) -> None:
    """Each difference is a problem, with who wrote last where Kubernetes knows it."""
    assert _check(_observed(change), apply=True) == [("problem", _WHERE, f"{_NOT_SO}{line}", _APPLIED)]


def test_what_only_the_service_can_know_is_a_warning() -> None:
    """Somebody else who writes the configurations does not know the control-plane Namespaces of the cluster."""

    def narrowed(found: Json) -> None:
        found["webhooks"][0]["matchConditions"][0]["expression"] = "true"

    name = _wanted()["webhooks"][0]["matchConditions"][0]["name"]
    line = f"{_NOT_SO}labels.cks-admission.dev: matchConditions {name}"
    assert _check(_observed(narrowed)) == [("warning", _WHERE, line, _BY_HAND)]
    assert _check(_observed(narrowed), apply=True) == [("problem", _WHERE, line, _APPLIED)]


def test_entries_of_others_are_told() -> None:
    """What others put into the service's configuration works, and goes with it."""

    def other(found: Json) -> None:
        found["webhooks"].append({"name": "mine.example.org", "clientConfig": {"url": "https://example.org"}})

    assert _check(_observed(other))[0] == (
        "warning",
        _WHERE,
        "it has entries that do not belong to the service: mine.example.org",
        "move them to a configuration of their own; this one is deleted with the service",
    )


def test_the_mark_of_unregistering_is_told() -> None:
    """What is marked is written no more, so that somebody has to decide."""

    def mark(found: Json) -> None:
        found["metadata"]["annotations"] = {"cks-admission.dev/unregister": "true"}

    assert _check(_observed(mark))[0] == (
        "warning",
        _WHERE,
        "it is annotated with cks-admission.dev/unregister: a running service no longer writes it",
        (
            "delete it, or remove the annotation: "
            "kubectl annotate validatingwebhookconfiguration cks-admission cks-admission.dev/unregister-"
        ),
    )


def test_what_no_rule_needs_is_a_problem() -> None:
    """A configuration that nobody wants asks for nothing; one that is neither wanted nor there is no finding."""
    remedy = "remove it: cks-admission unregister, or kubectl delete it"
    assert _check(_observed(), None) == [("problem", _WHERE, "it exists, but no rule needs it", remedy)]
    assert _check(None, None) == []


def test_what_is_not_known_is_said() -> None:
    """Without the right, or without knowing what is wanted, nothing is claimed."""
    why = Unread("Namespaces could not be read")
    assert _check(FORBIDDEN)[0][:2] == ("unknown", _WHERE)
    assert _check(_observed(), why) == [
        ("unknown", _WHERE, f"not compared with the settings: {why.reason}", "correct that first")
    ]
    assert _check(None, why) == [
        ("problem", _WHERE, f"it does not exist, and whether it should is unknown: {why.reason}", _BY_HAND)
    ]
