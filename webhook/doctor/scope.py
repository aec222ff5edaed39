"""Checks what an outage would affect: failure policies, Namespaces and time-outs of webhook entries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from policies.engine.facts import NAME_LABEL
from policies.engine.request import JsonObject, mapping
from policies.engine.safety import Safety
from webhook.doctor.diagnosis import Diagnosis, Read, Unread, count, listed, unseen
from webhook.doctor.observation import Component
from webhook.doctor.registration import entries
from webhook.registration import outage
from webhook.registration.outage import selector

CHECK: Final = "scope"
SYSTEM: Final = "kube-system"
# Kubernetes' own default. Mutating webhooks run one after another, and the caller waits for all of them.
LONGEST: Final = 10

Labels = Mapping[str, str]


def check(
    own: Mapping[str, Read[JsonObject | None]],
    others: Read[Sequence[JsonObject]],
    namespaces: Read[Mapping[str, Labels]],
    own_namespace: str,
) -> Iterator[Diagnosis]:
    """Diagnoses of the service's entries, by kind, and of others' entries that could stop the whole cluster."""
    known = {} if isinstance(namespaces, Unread) else namespaces
    labels = {name: known.get(name, {NAME_LABEL: name}) for name in (own_namespace, SYSTEM)}
    diagnoses = [
        diagnosis
        for kind, configuration in own.items()
        for entry in entries(configuration)
        for diagnosis in _own(f"{kind} entry {entry.get('name')}", entry, labels, own_namespace)
    ]
    yield from diagnoses
    closed = sum(_is_closed(entry) for configuration in own.values() for entry in entries(configuration))
    if not diagnoses and any(entries(configuration) for configuration in own.values()):
        failing = count(closed, "entry fails", "entries fail")
        text = f"{failing} closed, none of them in {own_namespace} or for all of {SYSTEM}"
        yield Diagnosis(CHECK, "ok", "the service's entries", text)
    # The check of other webhooks reports that these could not be read.
    for configuration in [] if isinstance(others, Unread) else others:
        for entry in entries(configuration):
            if (
                _is_closed(entry)
                and _is_about_all(entry)
                and not _conditions(entry)
                and _reaches(entry, labels[SYSTEM])
            ):
                yield _stops_all(configuration, entry)


def check_outage(
    own: Mapping[str, Read[JsonObject | None]],
    components: Read[Sequence[Component]],
    namespaces: Read[Mapping[str, Labels]],
    safety: Safety,
) -> Iterator[Diagnosis]:
    """Diagnoses of what the service's entries would keep from coming up while no replica answers.

    components: workloads of Nodes and of the cluster, whose Pods have to start.
    """
    closed = outage.ClosedEntries(entry for configuration in own.values() for entry in entries(configuration))
    blocked: dict[str, list[str]] = {}
    for write in outage.essential_writes(safety):
        if entry := closed.refusing(write, {}):
            name = ".".join(part for part in (write.resource.resource, write.resource.group) if part)
            blocked.setdefault(entry, []).append(f"{name}/{write.sub_resource}" if write.sub_resource else name)
    for entry, names in blocked.items():
        text = f"while no replica answers, it refuses what a cluster needs to come up: {listed(names)}"
        remedy = "apply what cks-admission export webhook-configuration prints, or let the service write it"
        yield Diagnosis(CHECK, "problem", f"entry {entry}", text, remedy)
    if isinstance(components, Unread):
        yield unseen(CHECK, "workloads that Nodes need", components)
        return
    known = {} if isinstance(namespaces, Unread) else namespaces
    yield from _components(closed, components, known)


def _components(
    closed: outage.ClosedEntries, components: Sequence[Component], namespaces: Mapping[str, Labels]
) -> Iterator[Diagnosis]:
    blocked: dict[tuple[str, str], list[str]] = {}
    for component in components:
        labels = namespaces.get(component.namespace, {NAME_LABEL: component.namespace})
        if entry := closed.refusing(component.pod, labels):
            blocked.setdefault((component.namespace, entry), []).append(f"{component.kind} {component.name}")
    for (namespace, entry), names in blocked.items():
        text = f"while no replica answers, {entry} refuses Pods of {listed(names)}"
        remedy = f"if Nodes or the service need them, add {namespace} to safety.namespaces"
        yield Diagnosis(CHECK, "warning", f"Namespace {namespace}", text, remedy)


def _own(where: str, entry: JsonObject, labels: Mapping[str, Labels], own_namespace: str) -> Iterator[Diagnosis]:
    closed = _is_closed(entry)
    if closed and _reaches(entry, labels[own_namespace]):
        text = f"it fails closed and reaches {own_namespace}: while no replica answers, none can start there"
        remedy = f"exclude that Namespace: {{key: {NAME_LABEL}, operator: NotIn, values: [{own_namespace}]}}"
        yield Diagnosis(CHECK, "problem", where, text, remedy)
    if closed and not _conditions(entry) and _reaches(entry, labels[SYSTEM]):
        text = (
            f"it fails closed and reaches all of {SYSTEM} that its rules match: during an outage the "
            "cluster may not start"
        )
        remedy = "apply what cks-admission export webhook-configuration prints, or let the service write it"
        yield Diagnosis(CHECK, "warning", where, text, remedy)
    if (seconds := entry.get("timeoutSeconds", LONGEST)) > LONGEST:
        text = f"every matching write waits up to {seconds} s for an answer"
        yield Diagnosis(CHECK, "warning", where, text, f"set registration.timeoutSeconds to {LONGEST} or less")


def _stops_all(configuration: JsonObject, entry: JsonObject) -> Diagnosis:
    name = mapping(configuration, "metadata").get("name")
    client = mapping(entry, "clientConfig")
    service = mapping(client, "service")
    behind = f"Service {service.get('namespace')}/{service.get('name')}" if service else str(client.get("url"))
    text = f"it fails closed for every resource, also in {SYSTEM}: while {behind} is down, nothing can be written"
    remedy = "ask its owner to add a namespaceSelector or matchConditions, or to set failurePolicy: Ignore"
    return Diagnosis(CHECK, "warning", f"{configuration.get('kind')} {name} entry {entry.get('name')}", text, remedy)


def _is_closed(entry: JsonObject) -> bool:
    return bool(entry.get("failurePolicy", "Fail") == "Fail")


def _conditions(entry: JsonObject) -> bool:
    return bool(entry.get("matchConditions"))


def _reaches(entry: JsonObject, labels: Labels) -> bool:
    """Whether an entry matches objects in a Namespace with these labels."""
    scoped = any(rule.get("scope", "*") != "Cluster" for rule in entry.get("rules") or ())
    return scoped and selector(entry.get("namespaceSelector")).matches(labels)


def _is_about_all(entry: JsonObject) -> bool:
    return any(
        "*" in (rule.get("apiGroups") or ())
        and {"*", "*/*"} & set(rule.get("resources") or ())
        and {"*", "CREATE", "UPDATE"} & set(rule.get("operations") or ())
        for rule in entry.get("rules") or ()
    )
