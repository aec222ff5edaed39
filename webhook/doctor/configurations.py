"""Checks the webhook configurations: the service's own, what an outage would affect, and what others change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Final, NamedTuple

from policies.engine.facts import NAME_LABEL
from policies.engine.request import GroupVersionResource, JsonObject, Operation, mapping
from policies.engine.safety import ADMINISTRATORS, COMPONENTS, CONTROL_PLANE, CONTROL_PLANE_LABEL, Safety
from policies.engine.violation import listed
from policies.labelpolicy import DEFINITION, LabelWriter
from policies.rbac import Rights
from webhook.configuration.settings import Registration, Settings
from webhook.doctor.observation import Check, Component, Diagnosis, Read, Unread, count, entries
from webhook.registration import outage
from webhook.registration.configurations import (
    UNREGISTER,
    changed_by,
    difference,
    foreign,
    is_unregistered,
    kept,
    with_bundles,
)
from webhook.registration.outage import selector

_REGISTRATION: Final = Check("registration")
_SCOPE: Final = Check("scope")
_OTHERS: Final = Check("other webhooks")
_WRITERS: Final = Check("label writers")

_MUTATING: Final = "MutatingWebhookConfiguration"
_SYSTEM: Final = "kube-system"
# Kubernetes' own default. Mutating webhooks run one after another, and the caller waits for all of them.
_LONGEST: Final = 10
_APPLY: Final = "apply what cks-admission export webhook-configuration prints, or let the service write it"

Labels = Mapping[str, str]


def check_registration(
    kind: str,
    desired: Read[JsonObject | None],
    observed: Read[JsonObject | None],
    chosen: Registration,
    *,
    in_files: bool,
) -> Iterator[Diagnosis]:
    """Diagnoses of one configuration. desired: as the settings have it; None if no rule needs it.

    in_files: whether the API server is known to read files, in which it may be. The certificate check covers caBundle.
    """
    where, repair = f"{kind} {chosen.name}", _repair(chosen)
    if isinstance(observed, Unread):
        yield _REGISTRATION.unread(where, observed)
        return
    if observed is None:
        if isinstance(desired, Unread):
            text = f"it does not exist, and whether it should is unknown: {desired.reason}"
            yield _REGISTRATION.problem(where, text, repair)
        elif desired is not None and in_files and not chosen.apply:
            text = "it does not exist; whether it is in files of the API server, nobody can read"
            yield _REGISTRATION.unknown(where, text)
        elif desired is not None:
            harm = "never calls the service" if "webhooks" in desired else "does not refuse reserved labels"
            yield _REGISTRATION.problem(where, f"it does not exist, so the API server {harm}", repair)
        return

    # What is there: who announced what, whose entries there are, and how it differs from the settings.
    if is_unregistered(observed):
        text = f"it is annotated with {UNREGISTER}: a running service no longer writes it"
        remedy = f"delete it, or remove the annotation: kubectl annotate {where.lower()} {UNREGISTER}-"
        yield _REGISTRATION.warn(where, text, remedy)
    if others := [str(entry["name"]) for entry in foreign(observed)]:
        text = f"it has entries that do not belong to the service: {listed(others)}"
        remedy = "move them to a configuration of their own; this one is deleted with the service"
        yield _REGISTRATION.warn(where, text, remedy)
    if isinstance(desired, Unread):
        yield _REGISTRATION.unknown(where, f"not compared with the settings: {desired.reason}", "correct that first")
        return
    if desired is None:
        remedy = "remove it: cks-admission unregister, or kubectl delete it"
        yield _REGISTRATION.problem(where, "it exists, but no rule needs it", remedy)
        return
    likened = kept(with_bundles(desired, observed), observed, chosen.kept)
    differences, by = difference(likened, observed), changed_by(observed)
    for line in differences:
        written = f"; last written by {by.manager} at {by.time}" if by.manager else ""
        # Whoever else writes it knows neither the cluster's Namespaces nor our labels.
        is_expected = line.startswith(("label ", "annotation ")) or ": matchConditions " in line
        diagnose = _REGISTRATION.warn if is_expected and not chosen.apply else _REGISTRATION.problem
        yield diagnose(where, f"it differs from the settings: {line}{written}", repair)
    if not differences:
        number = "" if "spec" in desired else f"{count(len(entries(observed)), 'entry', 'entries')}, "
        yield _REGISTRATION.ok(where, f"{number}as in the settings")


def _repair(chosen: Registration) -> str:
    if chosen.apply:
        log = 'if it does not, look for "not registered" or "undone" in its log'
        return f"the service repairs it after being ready for 10 s; {log}"
    if chosen.ca_only:
        return "apply the chart again: the service itself writes only the caBundle"
    return "apply it again: cks-admission export webhook-configuration | kubectl apply --server-side -f -"


def check_scope(
    own: Mapping[str, Read[JsonObject | None]],
    others: Read[Sequence[JsonObject]],
    namespaces: Read[Mapping[str, Labels]],
    own_namespace: str,
) -> Iterator[Diagnosis]:
    """Diagnoses of the service's entries, by kind, and of others' entries that could stop the whole cluster."""
    known = {} if isinstance(namespaces, Unread) else namespaces
    labels = {name: known.get(name, {NAME_LABEL: name}) for name in (own_namespace, _SYSTEM)}
    all_own = [(kind, entry) for kind, configuration in own.items() for entry in entries(configuration)]
    diagnoses = [
        diagnosis
        for kind, entry in all_own
        for diagnosis in _own(f"{kind} entry {entry.get('name')}", entry, labels, own_namespace)
    ]
    yield from diagnoses
    if not diagnoses and all_own:
        failing = count(sum(_is_closed(entry) for _, entry in all_own), "entry fails", "entries fail")
        text = f"{failing} closed, none of them in {own_namespace} or for all of {_SYSTEM}"
        yield _SCOPE.ok("the service's entries", text)
    # The check of other webhooks reports that these could not be read.
    for configuration in [] if isinstance(others, Unread) else others:
        for entry in entries(configuration):
            is_for_all = any(
                "*" in (rule.get("apiGroups") or ())
                and {"*", "*/*"} & set(rule.get("resources") or ())
                and {"*", "CREATE", "UPDATE"} & set(rule.get("operations") or ())
                for rule in entry.get("rules") or ()
            )
            if is_for_all and _closes(entry, labels[_SYSTEM]) and not entry.get("matchConditions"):
                name = mapping(configuration, "metadata").get("name")
                client = mapping(entry, "clientConfig")
                service = mapping(client, "service")
                behind = f"Service {service.get('namespace')}/{service.get('name')}" if service else client.get("url")
                yield _SCOPE.warn(
                    f"{configuration.get('kind')} {name} entry {entry.get('name')}",
                    f"it fails closed for every resource, also in {_SYSTEM}: while {behind} is down, nothing can be "
                    "written",
                    "ask its owner to add a namespaceSelector or matchConditions, or to set failurePolicy: Ignore",
                )


def check_outage(
    own: Mapping[str, Read[JsonObject | None]],
    components: Read[Sequence[Component]],
    namespaces: Read[Mapping[str, Labels]],
    safety: Safety,
) -> Iterator[Diagnosis]:
    """Diagnoses of what the service's entries would keep from coming up while no replica answers.

    components: workloads of Nodes and of the cluster, whose Pods have to start.
    """
    refusing = outage.refusal(entry for configuration in own.values() for entry in entries(configuration))
    blocked: dict[str, list[str]] = {}
    for write in outage.essential_writes(safety):
        if entry := refusing(write, {}):
            name = ".".join(part for part in (write.resource.resource, write.resource.group) if part)
            blocked.setdefault(entry, []).append(f"{name}/{write.sub_resource}" if write.sub_resource else name)
    for entry, names in blocked.items():
        text = f"while no replica answers, it refuses what a cluster needs to come up: {listed(names)}"
        yield _SCOPE.problem(f"entry {entry}", text, _APPLY)
    if isinstance(components, Unread):
        yield _SCOPE.unread("workloads that Nodes need", components)
        return
    known = {} if isinstance(namespaces, Unread) else namespaces
    refused: dict[tuple[str, str], list[str]] = {}
    for one in components:
        if entry := refusing(one.pod, known.get(one.namespace, {NAME_LABEL: one.namespace})):
            refused.setdefault((one.namespace, entry), []).append(f"{one.kind} {one.name}")
    for (namespace, entry), names in refused.items():
        text = f"while no replica answers, {entry} refuses Pods of {listed(names)}"
        remedy = f"if Nodes or the service need them, add {namespace} to safety.namespaces"
        yield _SCOPE.warn(f"Namespace {namespace}", text, remedy)


def _own(where: str, entry: JsonObject, labels: Mapping[str, Labels], own_namespace: str) -> Iterator[Diagnosis]:
    if _closes(entry, labels[own_namespace]):
        text = f"it fails closed and reaches {own_namespace}: while no replica answers, none can start there"
        remedy = f"exclude that Namespace: {{key: {NAME_LABEL}, operator: NotIn, values: [{own_namespace}]}}"
        yield _SCOPE.problem(where, text, remedy)
    if _closes(entry, labels[_SYSTEM]) and not entry.get("matchConditions"):
        reach = f"it fails closed and reaches all of {_SYSTEM} that its rules match"
        yield _SCOPE.warn(where, f"{reach}: during an outage the cluster may not start", _APPLY)
    if (seconds := entry.get("timeoutSeconds", _LONGEST)) > _LONGEST:
        text = f"every matching write waits up to {seconds} s for an answer"
        yield _SCOPE.warn(where, text, f"set registration.timeoutSeconds to {_LONGEST} or less")


def _is_closed(entry: JsonObject) -> bool:
    return bool(entry.get("failurePolicy", "Fail") == "Fail")


def _closes(entry: JsonObject, labels: Labels) -> bool:
    """Whether an entry fails closed, and matches objects in a Namespace with these labels."""
    scoped = any(rule.get("scope", "*") != "Cluster" for rule in entry.get("rules") or ())
    return _is_closed(entry) and scoped and selector(entry.get("namespaceSelector")).matches(labels)


class _Write(NamedTuple):
    """A write that a rule may match."""

    operation: Operation
    resource: GroupVersionResource
    sub_resource: str = ""


def check_others(own: Read[JsonObject | None], others: Read[Sequence[JsonObject]], name: str) -> Iterator[Diagnosis]:
    """Diagnoses of other configurations that change what the service changes. own: its mutating configuration.

    The API server calls them in the order of their names. With reinvocationPolicy IfNeeded it calls a webhook again if
    another one has changed the object since.
    """
    if isinstance(others, Unread):
        yield _OTHERS.unread("other webhook configurations", others)
        return
    diagnoses = []
    for other in others:
        if other.get("kind") != _MUTATING:
            continue
        called = str(mapping(other, "metadata").get("name"))
        where = f"{_MUTATING} {called}"
        shared = [
            (entry, both) for entry in entries(own) for theirs in entries(other) if (both := _both(entry, theirs))
        ]
        what = listed(list(dict.fromkeys(resource for _, both in shared for resource in both)))
        names = (str(entry["name"]) for entry, _ in shared if entry.get("reinvocationPolicy") != "IfNeeded")
        blind = list(dict.fromkeys(names))
        if shared and called < name:
            diagnoses.append(_OTHERS.ok(where, f"it may change {what} before the service does"))
        elif shared and not blind:
            text = f"it may change {what} after the service, which is then called again"
            diagnoses.append(_OTHERS.ok(where, text))
        elif shared:
            text = f"it may change {what} after the service, which is not called again by {listed(blind)}"
            remedy = f"give it a name that sorts before {name}, or make sure that it does not change what the service"
            diagnoses.append(_OTHERS.warn(where, text, f"{remedy} writes"))
    yield from diagnoses
    if not diagnoses:
        yield _OTHERS.ok(f"{_MUTATING}s", "no other webhook changes what the service changes")


def check_writers(writers: Read[Sequence[LabelWriter]], settings: Settings) -> Iterator[Diagnosis]:
    """Diagnoses of policies and conversions that can write labels without the guard being asked."""
    where = "mutating policies and definitions"
    if settings.labels.action == "off":
        return
    if isinstance(writers, Unread):
        yield _WRITERS.unread(where, writers)
        return
    for writer in writers:
        if writer.kind != DEFINITION:
            remedy = "remove it, or name it in labels.trusted if it is the cloud's"
            yield _WRITERS.problem(f"{writer.kind} {writer.name}", writer.text, remedy)
    if converted := [writer.name for writer in writers if writer.kind == DEFINITION]:
        text = f"conversion webhooks may change the labels of {listed(converted)} after admission"
        yield _WRITERS.warn(f"{DEFINITION}s", text, "name those in labels.trusted that are the cloud's")
    if not writers:
        yield _WRITERS.ok(where, "no policy and no conversion can write labels past the guard")


def check_actors(
    rights: Read[Rights | None], namespaces: Read[Mapping[str, Labels]], settings: Settings
) -> Iterator[Diagnosis]:
    """Who is above any guard: whoever may act as exempt requesters. The cluster's own components are left out."""
    where = "impersonation, tokens and Pods"
    if settings.labels.action == "off" or rights is None:
        return
    if isinstance(rights, Unread):
        yield _WRITERS.unread(where, rights)
        return
    known = {} if isinstance(namespaces, Unread) else namespaces
    theirs = [name for name, labels in known.items() if labels.get(CONTROL_PLANE_LABEL) == CONTROL_PLANE]
    places = {_SYSTEM, settings.cluster.namespace, *settings.labels.exempt.control_plane_namespaces, *theirs}
    found = [
        subject.describe(subject.namespace)
        for subject in rights.actors(COMPONENTS, ADMINISTRATORS, sorted(places))
        if subject.name not in (*COMPONENTS, *ADMINISTRATORS) and subject.namespace not in places
    ]
    text = f"roles let {listed(found)} act as exempt requesters" if found else "no role lets others act as exempt"
    yield _WRITERS.ok(where, text)


def _both(own: JsonObject, theirs: JsonObject) -> list[str]:
    rules = outage.resource_rules(theirs)
    writes = (
        # A rule for all versions overlaps with any other. The service's mutating entries name all their resources.
        _Write(operation, GroupVersionResource(group, "v1" if version == "*" else version, resource))
        for rule in own.get("rules") or ()
        for group, version, resource, operation in product(
            rule["apiGroups"], rule["apiVersions"], rule["resources"], rule["operations"]
        )
    )
    return [write.resource.resource for write in writes if any(rule.matches(write) for rule in rules)]
