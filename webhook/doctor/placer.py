"""Checks what Pods behind the gate depend on: a placer that leads, and the policy that limits its account."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from policies.engine.request import JsonObject, mapping
from webhook.configuration import roles
from webhook.configuration.settings import Settings
from webhook.doctor.diagnosis import Diagnosis, Read, Unread, count, listed, unseen

CHECK: Final = "placer"
POLICY: Final = "ValidatingAdmissionPolicy"
BINDING: Final = "ValidatingAdmissionPolicyBinding"

_QUEUE: Final = "`cks-admission topology queue --kubeconfig FILE` says for what their gangs wait, and behind whom"
_FENCE: Final = (
    "install the chart again; without it, whoever has the token of the placer's account may change Pods at will"
)


class Gated(Struct, frozen=True):
    """A Pod behind the gate. created: when it was made; None if that cannot be read."""

    namespace: str
    name: str
    created: datetime | None


class PlacerState(Struct, frozen=True):
    """What was read about the placer.

    absence: why nobody opens gates, with the remedy; empty if somebody does. fence: the policy and its binding by kind,
    None if one does not exist; they have the name of the Lease.
    """

    absence: Read[str]
    gated: Read[Sequence[Gated]]
    fence: Mapping[str, Read[JsonObject | None]] = {}


def is_due(settings: Settings) -> bool:
    """Whether somebody is to open gates."""
    return roles.gates(settings) and (settings.place.apart or roles.places(settings))


def check(settings: Settings, state: PlacerState | None, now: datetime) -> Iterator[Diagnosis]:
    """Diagnoses of the placer. state: None if nothing was to be read."""
    if state is None:
        return
    where = f"Lease {settings.cluster.namespace}/{settings.place.lease}"
    if isinstance(state.absence, Unread):
        yield unseen(CHECK, where, state.absence)
    elif state.absence:
        found, _, remedy = state.absence.partition(": ")
        yield Diagnosis(CHECK, "problem", where, found, remedy)
    else:
        yield Diagnosis(CHECK, "ok", where, "a placer holds and renews it")
    yield _gated(state.gated, settings.topology.patience_seconds, now)
    if settings.place.apart:
        yield from _fence(settings.place.lease, state.fence)


def _gated(gated: Read[Sequence[Gated]], patience: float, now: datetime) -> Diagnosis:
    where = "Pods behind the gate"
    if isinstance(gated, Unread):
        return unseen(CHECK, where, gated)
    late = [pod for pod in gated if pod.created is not None and (now - pod.created).total_seconds() > patience]
    limit = f"{patience:g} s (topology.patienceSeconds)"
    if not late:
        return Diagnosis(CHECK, "ok", where, f"{count(len(gated), 'Pod')}, none older than {limit}")
    named = listed([f"{pod.namespace}/{pod.name}" for pod in late])
    return Diagnosis(
        CHECK, "warning", where, f"{len(late)} of {count(len(gated), 'Pod')} older than {limit}: {named}", _QUEUE
    )


def _fence(name: str, objects: Mapping[str, Read[JsonObject | None]]) -> Iterator[Diagnosis]:
    for kind, found in objects.items():
        where = f"{kind} {name}"
        if isinstance(found, Unread):
            yield unseen(CHECK, where, found)
        elif found is None:
            yield Diagnosis(CHECK, "problem", where, "it does not exist", _FENCE)
        elif flaw := _flaw(kind, name, mapping(found, "spec")):
            yield Diagnosis(CHECK, "problem", where, flaw, _FENCE)
        else:
            yield Diagnosis(CHECK, "ok", where, "it is there")


def _flaw(kind: str, name: str, spec: JsonObject) -> str:
    if kind == POLICY:
        return "" if spec.get("failurePolicy", "Fail") == "Fail" else "its failurePolicy is not Fail"
    if spec.get("policyName") != name:
        return f"it binds another policy, {spec.get('policyName')}"
    return "" if "Deny" in (spec.get("validationActions") or ()) else "its validationActions have no Deny"
