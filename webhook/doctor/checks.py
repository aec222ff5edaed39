"""All checks of an installation, in the order in which people should read the results. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from policies.engine.request import JsonObject
from webhook.configuration.rules import safety
from webhook.configuration.settings import Settings
from webhook.doctor import cluster, configurations, connection, processes
from webhook.doctor.desired import Desired
from webhook.doctor.observation import Diagnosis, InstallationState, Probe, Read, Unread, entries
from webhook.registration.configurations import KINDS


def examine(settings: Settings, observation: InstallationState, desired: Desired, now: datetime) -> Iterator[Diagnosis]:
    """The diagnoses of all checks, in their order."""
    state, workspace, chosen = observation.cluster, observation.workspace, settings.registration
    own, mutating = state.own, state.own[KINDS["mutate"]]
    yield from cluster.check_api_server(state.version, state.groups, settings)
    made, in_files = desired.configurations, connection.is_static(observation.probe)
    for kind, observed in own.items():
        want: Read[JsonObject | None] = made if isinstance(made, Unread) else made.get(kind)
        yield from configurations.check_registration(kind, want, observed, chosen, in_files=in_files)
    yield from connection.check_address(settings, workspace.service, workspace.slices)
    trusted, wrong = connection.trusts({kind: entries(one) for kind, one in own.items()}, settings)
    yield from wrong
    answered = connection.is_answered(observation.probe)
    yield from connection.check_certificates(observation.served, trusted, settings, now, proven=answered)
    yield from connection.check_secrets(workspace.secret, workspace.leaf, trusted, settings, now)
    yield from _probe(settings, observation, desired, now)
    yield from processes.check_rights(observation.rights, observation.asked_for, own=observation.is_service)
    yield from configurations.check_scope(own, state.others, state.namespaces, settings.cluster.namespace)
    yield from configurations.check_outage(own, state.components, state.namespaces, safety(settings))
    yield from configurations.check_others(mutating, state.others, chosen.name)
    yield from configurations.check_writers(state.label_writers, settings)
    yield from configurations.check_actors(state.rights, state.namespaces, settings)
    yield from cluster.check_policies(desired, workspace.maps, settings)
    yield from cluster.check_topology(settings, desired.catalog, state.topologies, state.machines)
    yield from cluster.check_scheduling(settings, mutating)
    yield from processes.check_replicas(workspace.deployments, workspace.pods, settings)
    yield from processes.check_lease(workspace.lease, workspace.pods, settings, now)
    yield from processes.check_placer(settings, observation.placer, now)


def _probe(settings: Settings, observation: InstallationState, desired: Desired, now: datetime) -> Iterator[Diagnosis]:
    probe, user, namespaces = observation.probe, observation.cluster.user, observation.cluster.namespaces
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
