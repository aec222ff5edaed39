"""Checks whether the webhook configurations exist and match the settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policies.engine.request import JsonObject
from webhook.configuration.settings import Registration
from webhook.doctor.diagnosis import Diagnosis, Read, Unread, count, listed, unseen
from webhook.registration import drift
from webhook.registration.configurations import UNREGISTER

CHECK: Final = "registration"


def entries(configuration: Read[JsonObject | None]) -> list[JsonObject]:
    """The entries of a configuration, none where it was not read."""
    if isinstance(configuration, Unread) or configuration is None:
        return []
    return list(configuration.get("webhooks") or ())


def check(
    kind: str, desired: Read[JsonObject | None], observed: Read[JsonObject | None], chosen: Registration
) -> Iterator[Diagnosis]:
    """Diagnoses of one configuration. desired: as the settings have it; None if no rule needs it.

    The certificate check covers caBundle.
    """
    where = f"{kind} {chosen.name}"
    if isinstance(observed, Unread):
        yield unseen(CHECK, where, observed)
    elif observed is None:
        yield from _missing(where, desired, chosen)
    else:
        yield from _marked(kind, where, observed, chosen)
        yield from _foreign(where, observed)
        yield from _compared(where, desired, observed, chosen)


def _missing(where: str, desired: Read[JsonObject | None], chosen: Registration) -> Iterator[Diagnosis]:
    if isinstance(desired, Unread):
        text = f"it does not exist, and whether it should is unknown: {desired.reason}"
        yield Diagnosis(CHECK, "problem", where, text, _put_right(chosen))
    elif desired is not None:
        text = "it does not exist, so the API server never calls the service"
        yield Diagnosis(CHECK, "problem", where, text, _put_right(chosen))


def _marked(kind: str, where: str, observed: JsonObject, chosen: Registration) -> Iterator[Diagnosis]:
    if drift.is_unregistered(observed):
        text = f"it is annotated with {UNREGISTER}: a running service no longer writes it"
        remedy = f"delete it, or remove the annotation: kubectl annotate {kind.lower()} {chosen.name} {UNREGISTER}-"
        yield Diagnosis(CHECK, "warning", where, text, remedy)


def _foreign(where: str, observed: JsonObject) -> Iterator[Diagnosis]:
    if foreign := [str(entry["name"]) for entry in drift.foreign(observed)]:
        remedy = "move them to a configuration of their own; this one is deleted with the service"
        yield Diagnosis(
            CHECK, "warning", where, f"it has entries that do not belong to the service: {listed(foreign)}", remedy
        )


def _compared(
    where: str, desired: Read[JsonObject | None], observed: JsonObject, chosen: Registration
) -> Iterator[Diagnosis]:
    if isinstance(desired, Unread):
        remedy = "correct that first"
        yield Diagnosis(CHECK, "unknown", where, f"not compared with the settings: {desired.reason}", remedy)
        return
    if desired is None:
        remedy = "remove it: cks-admission unregister, or kubectl delete it"
        yield Diagnosis(CHECK, "problem", where, "it exists, but no rule needs it", remedy)
        return
    likened = drift.kept(drift.with_bundles(desired, observed), observed, chosen.kept)
    differences = drift.difference(likened, observed)
    by = drift.changed_by(observed)
    for line in differences:
        written = f"; last written by {by.manager} at {by.time}" if by.manager else ""
        text = f"it differs from the settings: {line}{written}"
        yield Diagnosis(CHECK, "warning" if _is_expected(line, chosen) else "problem", where, text, _put_right(chosen))
    if not differences:
        text = f"{count(len(entries(observed)), 'entry', 'entries')}, as in the settings"
        yield Diagnosis(CHECK, "ok", where, text)


def _is_expected(line: str, chosen: Registration) -> bool:
    """Whether a difference is expected because its writer knows neither the cluster's Namespaces nor our labels."""
    return not chosen.apply and (line.startswith(("label ", "annotation ")) or ": matchConditions " in line)


def _put_right(chosen: Registration) -> str:
    if chosen.apply:
        return (
            'the service repairs it after being ready for 10 s; if it does not, look for "not registered" '
            'or "undone" in its log'
        )
    if chosen.ca_only:
        return "apply the chart again: the service itself writes only the caBundle"
    return "apply it again: cks-admission export webhook-configuration | kubectl apply --server-side -f -"
