"""Checks whether the service sees the changes of others: of mutating webhooks, and of what it is not asked about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final, NamedTuple

from policies.engine.match import ResourceRule
from policies.engine.request import GroupVersionResource, JsonObject, Operation, mapping
from policies.labelwriters import DEFINITION, LabelWriter
from webhook.configuration.settings import Settings
from webhook.doctor.diagnosis import Diagnosis, Level, Read, Unread, listed, unseen
from webhook.doctor.registration import entries

CHECK: Final = "other webhooks"
WRITERS: Final = "label writers"
_MUTATING: Final = "MutatingWebhookConfiguration"


class _Write(NamedTuple):
    """A write that a rule may match."""

    operation: Operation
    resource: GroupVersionResource
    sub_resource: str = ""


def check(own: Read[JsonObject | None], others: Read[Sequence[JsonObject]], name: str) -> Iterator[Diagnosis]:
    """Diagnoses of other configurations that change what the service changes. own: its mutating configuration.

    The API server calls them in the order of their names. With reinvocationPolicy IfNeeded it calls a webhook again if
    another one has changed the object since.
    """
    if isinstance(others, Unread):
        yield unseen(CHECK, "other webhook configurations", others)
        return
    mutating = [configuration for configuration in others if configuration.get("kind") == _MUTATING]
    diagnoses = [finding for configuration in mutating for finding in _other(configuration, entries(own), name)]
    yield from diagnoses
    if not diagnoses:
        yield Diagnosis(CHECK, "ok", f"{_MUTATING}s", "no other webhook changes what the service changes")


def check_writers(writers: Read[Sequence[LabelWriter]], settings: Settings) -> Iterator[Diagnosis]:
    """Diagnoses of policies and conversions that can write labels without the guard being asked."""
    if settings.labels.action == "off":
        return
    if isinstance(writers, Unread):
        yield unseen(WRITERS, "mutating policies and definitions", writers)
        return
    remedy = "remove it, or name it in labels.trusted if it is the cloud's"
    for writer in writers:
        if writer.kind != DEFINITION:
            level: Level = "problem" if writer.verdict == "reserved" else "warning"
            yield Diagnosis(WRITERS, level, f"{writer.kind} {writer.name}", writer.text, remedy)
    if converted := [writer.name for writer in writers if writer.kind == DEFINITION]:
        text = f"conversion webhooks may change the labels of {listed(converted)} after admission"
        yield Diagnosis(WRITERS, "warning", f"{DEFINITION}s", text, "name those in labels.trusted that are the cloud's")
    if not writers:
        text = "no policy and no conversion can write labels past the guard"
        yield Diagnosis(WRITERS, "ok", "mutating policies and definitions", text)


def _other(other: JsonObject, own: Sequence[JsonObject], name: str) -> Iterator[Diagnosis]:
    called = str(mapping(other, "metadata").get("name"))
    shared = [(entry, theirs) for entry in own for theirs in entries(other) if _both(entry, theirs)]
    if not shared:
        return
    where = f"{_MUTATING} {called}"
    what = listed(list(dict.fromkeys(resource for entry, theirs in shared for resource in _both(entry, theirs))))
    if called < name:
        yield Diagnosis(CHECK, "ok", where, f"it may change {what} before the service does")
        return
    blind = [str(entry["name"]) for entry, _ in shared if entry.get("reinvocationPolicy") != "IfNeeded"]
    if not blind:
        yield Diagnosis(CHECK, "ok", where, f"it may change {what} after the service, which is then called again")
        return
    text = f"it may change {what} after the service, which is not called again by {listed(list(dict.fromkeys(blind)))}"
    remedy = f"give it a name that sorts before {name}, or make sure that it does not change what the service writes"
    yield Diagnosis(CHECK, "warning", where, text, remedy)


def _both(own: JsonObject, theirs: JsonObject) -> list[str]:
    """The resources that both configurations match."""
    rules = [_rule(rule) for rule in theirs.get("rules") or ()]
    return [
        write.resource.resource
        for own_rule in own.get("rules") or ()
        for write in _writes(own_rule)
        if any(rule.matches(write) for rule in rules)
    ]


def _writes(rule: JsonObject) -> Iterator[_Write]:
    """The writes that a rule of the service matches. Its mutating entries name all their resources."""
    for group, version, resource, operation in product(
        rule["apiGroups"], rule["apiVersions"], rule["resources"], rule["operations"]
    ):
        # A rule for all versions overlaps with any other.
        yield _Write(operation, GroupVersionResource(group, "v1" if version == "*" else version, resource))


def _rule(rule: JsonObject) -> ResourceRule:
    # Versions are ignored, because the API server converts writes of other versions.
    return ResourceRule(
        tuple(rule.get("operations") or ()), tuple(rule.get("apiGroups") or ()), tuple(rule.get("resources") or ())
    )
