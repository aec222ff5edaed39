"""Checks whether a reserved label is refused, which proves the whole path from the API server to the rules."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Final

from policies.engine import engine
from policies.engine.facts import NAME_LABEL, StaticFacts
from policies.engine.request import JsonObject, UserInfo
from policies.engine.ruleset import RuleSet
from policies.engine.safety import service_account
from webhook.doctor.diagnosis import Diagnosis, Read, Unread, unseen
from webhook.doctor.observation import Probe
from webhook.files import manifest
from webhook.registration.configurations import DOMAIN

CHECK: Final = "probe"
LABEL: Final = "doctor.coreweave.cloud/probe"


def probe_object(namespace: str) -> JsonObject:
    """A ConfigMap with a label that is reserved."""
    metadata = {"name": "cks-admission-doctor", "namespace": namespace, "labels": {LABEL: "true"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def expected(
    ruleset: RuleSet, namespace: str, user: UserInfo, namespaces: Mapping[str, Mapping[str, str]], today: date
) -> bool:
    """Whether the rules would refuse the probe of a user. namespaces: labels by name."""
    request = manifest.request(probe_object(namespace), None, user=user, namespace=namespace)
    needed = (namespace, service_account(user.username)[0])
    known = {name: namespaces.get(name, {NAME_LABEL: name}) for name in needed if name}
    return not engine.validate(request, ruleset, StaticFacts(today, known)).allowed


def is_answered(probe: Read[Probe] | None) -> bool:
    """Whether the service refused the probe, so that the API server is known to reach it."""
    return isinstance(probe, Probe) and f'.{DOMAIN}" denied the request' in probe.message


def check(probe: Read[Probe], *, should_refuse: Read[bool]) -> Diagnosis:
    """The diagnosis of the answer to the probe. should_refuse: whether it should have been refused."""
    where = "ConfigMap with a reserved label, dry run"
    if isinstance(probe, Unread):
        return unseen(CHECK, where, probe)
    where = f"{where} in namespace {probe.namespace}"
    if probe.status < 400:
        return _admitted(where, should_refuse)
    if is_answered(probe):
        text = "the service refused it: the API server calls the service and gets its answer"
        return Diagnosis(CHECK, "ok", where, text)
    if f'.{DOMAIN}"' in probe.message:
        remedy = "see the findings about the address and the certificate"
        return Diagnosis(CHECK, "problem", where, f"the API server could not call the service: {probe.message}", remedy)
    remedy = "use an account that may create configmaps there, or choose another Namespace with --probe-namespace"
    if "configmaps is forbidden" in probe.message:
        return Diagnosis(CHECK, "unknown", where, "the current account may not create configmaps", remedy)
    return Diagnosis(CHECK, "unknown", where, f"something else refused it first: {probe.message}", remedy)


def _admitted(where: str, should_refuse: Read[bool]) -> Diagnosis:
    if isinstance(should_refuse, Unread):
        text = f"it was admitted, but whether that is correct is unknown: {should_refuse.reason}"
        return Diagnosis(CHECK, "unknown", where, text, "see the findings about policies and rights")
    if should_refuse:
        remedy = "see the findings about the registration; after a change the API server needs a few seconds"
        return Diagnosis(CHECK, "problem", where, "it was admitted: the API server did not call the service", remedy)
    text = "it was admitted, as the settings allow for this user and Namespace, so it proves nothing"
    return Diagnosis(CHECK, "unknown", where, text, "use an account that is not exempt from the labels rule")
