"""All checks of an installation, in the order in which people read them, and those of the cluster itself. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec

from policies.engine.request import JsonObject, mapping
from policies.engine.violation import listed
from policies.kubernetes.release import NEWEST, Release, is_proven, nearest
from policies.topology.nodes.tree import Machine, best_topology, present, suited
from policies.topology.topology import Catalog, Level, Topology
from policies.topology.way import ANNOTATION, Support
from policies.vocabulary import HOSTNAME
from webhook.cluster.watches.optional import DEVICE_GROUP, DEVICE_VERSIONS
from webhook.configuration import rules
from webhook.configuration.settings import Settings
from webhook.doctor import configurations, connection, processes
from webhook.doctor.desired import Desired
from webhook.doctor.observation import (
    Check,
    Diagnosis,
    InstallationState,
    PolicySource,
    Probe,
    Read,
    TopologyObjects,
    Unread,
    count,
    entries,
)
from webhook.registration.configurations import KINDS
from webhook.registration.resources import ADMISSION

_API_SERVER: Final = Check("API server")
_POLICIES: Final = Check("policies")
_TOPOLOGY: Final = Check("topology")

# Webhooks' match conditions and ValidatingAdmissionPolicy v1 came with it.
_CONDITIONS_SINCE: Final = 1, 30
_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)")


def check_api_server(
    version: str, groups: Read[Mapping[str, tuple[str, ...]]], settings: Settings
) -> Iterator[Diagnosis]:
    """Whether its version and APIs suffice. groups: the served API groups, with their versions."""
    if match := _VERSION.match(version):
        conditions, native = "webhook match conditions", "ValidatingAdmissionPolicy v1"
        lacking = f"{version} has no {{}} (since {'.'.join(map(str, _CONDITIONS_SINCE))}): {{}}"
        if (int(match[1]), int(match[2])) >= _CONDITIONS_SINCE:
            names = f"{conditions} and {native}" if settings.policies.native else conditions
            yield _API_SERVER.ok("version", f"{version} has {names}")
        else:
            harm = "the API server may call the service for every write, and refuse every write during an outage"
            yield _API_SERVER.problem("version", lacking.format(conditions, harm), "upgrade the cluster")
            if settings.policies.native:
                text = lacking.format(native, "the cluster's own policies cannot be used")
                yield _API_SERVER.warn("version", text, "upgrade the cluster, or set policies.native to false")

        # Policies may be judged otherwise than the API server would judge them.
        release, chosen = judged_as(version, settings), settings.policies
        in_cluster = settings.cluster.is_given and (chosen.config_maps or chosen.native)
        if not (chosen.directories or settings.packs.is_on or in_cluster):
            pass
        elif settings.policies.release is not None and nearest(version) != release:
            text = f"{version}, but policies are judged as by {release.name}"
            remedy = "leave policies.kubernetes empty, and the service follows the API server"
            yield _API_SERVER.warn("policies.kubernetes", text, remedy)
        elif not is_proven(version):
            text = f"{version} is not proven here: policies are judged as by {release.known_as}, the nearest release"
            remedy = "upgrade the service; until then try policies with kubectl apply --dry-run=server, too"
            yield _API_SERVER.warn("release", text, remedy)
    else:
        yield _API_SERVER.unknown("version", f"{version!r} is not a Kubernetes version")
    if isinstance(groups, Unread):
        yield _API_SERVER.unread("served APIs", groups)
        return
    if "v1" not in groups.get(ADMISSION, ()):
        text = f"it serves {ADMISSION} in {', '.join(groups.get(ADMISSION, ())) or 'no version'}, not in v1"
        yield _API_SERVER.problem(ADMISSION, text, "upgrade the cluster, or enable the API")
    served = groups.get(DEVICE_GROUP, ())
    if served and not set(served) & set(DEVICE_VERSIONS):
        none = f"it serves {', '.join(served)}, but none of {', '.join(DEVICE_VERSIONS)}"
        yield _API_SERVER.warn(
            DEVICE_GROUP, f"{none}: device claims do not make a Pod a GPU Pod", "upgrade the cluster"
        )


def judged_as(version: str, settings: Settings) -> Release:
    """The release by whose rules the service judges policies beside an API server of a version."""
    if settings.policies.release is not None:
        return settings.policies.release
    return nearest(version) if _VERSION.match(version) else NEWEST


def check_policies(desired: Desired, maps: Read[Mapping[str, PolicySource]], settings: Settings) -> Iterator[Diagnosis]:
    """Diagnoses of files and ConfigMaps that are refused now, or according to the service's annotation."""
    namespace = settings.cluster.namespace
    known: Mapping[str, PolicySource] = {}
    if isinstance(maps, Unread):
        yield _POLICIES.unread(f"ConfigMaps with policies in {namespace}", maps)
    else:
        known = {f"ConfigMap {namespace}/{name}": source for name, source in maps.items()}
    if isinstance(desired.ruleset, Unread):
        remedy = "correct the configuration, or run doctor where its files are"
        yield _POLICIES.problem("the configuration", desired.ruleset.reason, remedy)
    for where, reason in desired.refused.items():
        annotated = known[where].refused if where in known else ""
        remedy = "correct it; until then the previous policies stay in force"
        if where not in known:
            remedy = (
                "correct it; cks-admission lint shows more. Until it restarts, the service keeps the previous policies"
            )
        elif not annotated:
            remedy = (
                "correct it. The service has not annotated the ConfigMap: check that it runs and may patch ConfigMaps"
            )
        yield _POLICIES.problem(where, f"refused: {annotated or reason}", remedy)
    refused_there = [where for where, source in known.items() if source.refused]
    for where in refused_there:
        if where not in desired.refused:
            text = f"the service refuses it, but it loads without errors here: {known[where].refused}"
            remedy = 'the service may be another version, or have other sources; look for "policies refused" in its log'
            yield _POLICIES.problem(where, text, remedy)
    for doubt in desired.doubts:
        yield _POLICIES.warn("policies", doubt, "correct it, or delete it")
    for policy in desired.unasked:
        text = f"it is not asked about {policy.about}: {policy.reason}"
        yield _POLICIES.warn(f"policy {policy.policy} in the shadow", text, policy.remedy)
    if not (desired.refused or refused_there or isinstance(desired.ruleset, Unread)):
        text = count(len(desired.policies), "policy", "policies")
        yield _POLICIES.ok("policies", f"{text} in addition to the built-in rules, none refused")
    yield from _packs(desired, settings)


def _packs(desired: Desired, settings: Settings) -> Iterator[Diagnosis]:
    for name, pack in settings.packs.by_name.items():
        modes = (pack.mode, *(f"{policy} {mode}" for policy, mode in pack.policies.items()))
        yield _POLICIES.ok(f"pack {name}", ", ".join(modes))
    for name in desired.replaced:
        yield _POLICIES.ok(f"shipped policy {name}", "not used: another policy has this name")


def check_topology(
    settings: Settings, catalog: Read[Catalog], own: Read[TopologyObjects], machines: Read[Sequence[Machine]]
) -> Iterator[Diagnosis]:
    """Diagnoses of the labels of Nodes. own: the topologies that are objects of the cluster."""
    if settings.topology.action == "off" or isinstance(catalog, Unread):
        return
    if isinstance(own, Unread):
        yield _TOPOLOGY.unread("Topology objects", own)
    else:
        remedy = "correct the object, or grant the right"
        yield from (_TOPOLOGY.warn("Topology objects", problem, remedy) for problem in own.problems)
    if isinstance(machines, Unread):
        yield _TOPOLOGY.unread("Nodes", machines)
        return
    if not machines:
        yield _TOPOLOGY.ok("Nodes", "there are none")
        return
    known = catalog if isinstance(own, Unread) else catalog.joined(own.found)
    for clash in known.clashes:
        yield _TOPOLOGY.warn("Topology objects", str(clash), "rename or delete one of them")
    topologies = list(known.by_name.values())
    default = settings.topology.default.topology
    used = [topology for topology in topologies if topology.source != "built in" or topology.name == default]
    best = best_topology(machines, topologies)
    for topology in [*used, *(topology for topology in [best] if topology not in used)]:
        yield _labelled(topology, suited(topology, machines))


def check_scheduling(settings: Settings, own: Read[JsonObject | None]) -> Iterator[Diagnosis]:
    """Diagnoses of Kubernetes' own scheduling of workloads, where placements are left to it and `manage` finds out.

    own: the service's MutatingWebhookConfiguration, in which `manage` writes what the API server keeps.
    """
    if not (rules.schedules_workloads(settings) and settings.manage.apart):
        return
    where = "topology.workloadScheduling"
    if isinstance(own, Unread):
        yield _TOPOLOGY.unread(where, own)
        return
    text = mapping(mapping(own or {}, "metadata"), "annotations").get(ANNOTATION)
    try:
        support = msgspec.json.decode(str(text or "{}"), type=Support)
    except msgspec.MsgspecError as error:
        support = Support(reason=f"the annotation {ANNOTATION} cannot be read: {error}")
    if support.form:
        yield _TOPOLOGY.ok(where, f"the API server keeps topology constraints of {support.form}s")
        return
    reason = support.reason or "manage has not found out yet"
    remedy = "turn on what is missing, or set it to off: the placer chooses domains"
    yield _TOPOLOGY.warn(where, f"no placement is left to Kubernetes: {reason}", remedy)


def _labelled(topology: Topology, machines: Sequence[Machine]) -> Diagnosis:
    where = f"topology {topology.name}"
    remedy = "check what should label them (the cloud's controller, Topograph), or label them yourself"
    levels = [level for level in present(machines, topology) if level.name != HOSTNAME]
    gpus = [machine for machine in machines if machine.total]
    if not levels:
        keys = listed([level.name for level in topology.levels if level.name != HOSTNAME])
        text = f"none of {count(len(machines), 'Node')} has a label of its levels: {keys}"
        needed = gpus or topology.source != "built in"
        return _TOPOLOGY.warn(where, text, remedy) if needed else _TOPOLOGY.ok(where, text)
    lacking = {machine.node.name: missing for machine in gpus if (missing := _missing(machine, levels))}
    if lacking:
        named = [f"{name} ({topology.called_all(missing)})" for name, missing in lacking.items()]
        text = f"{len(lacking)} of {count(len(gpus), 'Node')} with accelerators lack labels: {listed(named)}"
        return _TOPOLOGY.warn(where, text, remedy)
    others = sum(bool(_missing(machine, levels)) for machine in machines)
    text = f"{count(len(gpus), 'Node')} with accelerators, none without the labels of {topology.called_all(levels)}"
    lacking_too = f"; {others} of {count(len(machines) - len(gpus), 'other')} without" if others else ""
    return _TOPOLOGY.ok(where, f"{text}{lacking_too}")


def _missing(machine: Machine, levels: Sequence[Level]) -> list[Level]:
    return [level for level in levels if level.value(machine.node.labels) is None]


def examine(settings: Settings, state: InstallationState, desired: Desired, now: datetime) -> Iterator[Diagnosis]:
    """The diagnoses of all checks, in their order."""
    chosen = settings.registration
    own, mutating = state.own, state.own[KINDS["mutate"]]
    yield from check_api_server(state.version, state.groups, settings)
    made, in_files = desired.configurations, connection.is_static(state.probe)
    for kind, observed in own.items():
        want: Read[JsonObject | None] = made if isinstance(made, Unread) else made.get(kind)
        yield from configurations.check_registration(kind, want, observed, chosen, in_files=in_files)
    yield from connection.check_address(settings, state.service, state.slices)
    trusted, wrong = connection.trusts({kind: entries(one) for kind, one in own.items()}, settings)
    yield from wrong
    answered = connection.is_answered(state.probe)
    yield from connection.check_certificates(state.served, trusted, settings, now, proven=answered)
    yield from connection.check_secrets(state.secret, state.leaf, trusted, settings, now)
    yield from _probe(settings, state, desired, now)
    yield from processes.check_rights(state.answers, state.asked_for, own=state.is_service)
    yield from configurations.check_scope(own, state.others, state.namespaces, settings.cluster.namespace)
    yield from configurations.check_outage(own, state.components, state.namespaces, rules.safety(settings))
    yield from configurations.check_others(mutating, state.others, chosen.name)
    yield from configurations.check_writers(state.label_writers, settings)
    yield from configurations.check_actors(state.rights, state.namespaces, settings)
    yield from check_policies(desired, state.maps, settings)
    yield from check_topology(settings, desired.catalog, state.topologies, state.machines)
    yield from check_scheduling(settings, mutating)
    yield from processes.check_replicas(state.deployments, state.pods, settings)
    yield from processes.check_lease(state.lease, state.pods, settings, now)
    yield from processes.check_placer(settings, state.placer, now)


def _probe(settings: Settings, state: InstallationState, desired: Desired, now: datetime) -> Iterator[Diagnosis]:
    probe, user, namespaces = state.probe, state.user, state.namespaces
    if probe is None:
        return
    refused: Read[bool] = False
    if isinstance(user, Unread):
        refused = Unread("the current user could not be determined")
    elif isinstance(desired.ruleset, Unread):
        refused = desired.ruleset
    elif isinstance(probe, Probe):
        known = {} if isinstance(namespaces, Unread) else namespaces
        refused = connection.is_refused(desired.ruleset, probe.namespace, user, known, now.date())
    yield from connection.check_probe(probe, settings, should_refuse=refused)
