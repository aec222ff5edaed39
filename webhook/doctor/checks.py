"""All checks of an installation, in the order in which people should read the results. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from policies.engine.request import JsonObject
from webhook.configuration.rules import safety
from webhook.configuration.settings import Settings
from webhook.doctor import cluster, configurations, connection, processes
from webhook.doctor.desired import Desired
from webhook.doctor.observation import Diagnosis, InstallationState, Read, Unread, entries
from webhook.registration.configurations import KINDS


def examine(settings: Settings, observation: InstallationState, desired: Desired, now: datetime) -> list[Diagnosis]:
    """The diagnoses of all checks, in their order."""
    state, workspace, chosen = observation.cluster, observation.workspace, settings.registration
    own, mutating = state.own, state.own[KINDS["mutate"]]
    return [
        *cluster.check_api_server(state.version, state.groups, settings),
        *_registration(settings, observation, desired),
        *connection.check_address(settings, workspace.service, workspace.slices),
        *_certificates(settings, observation, now),
        *_probe(settings, observation, desired, now),
        *processes.check_rights(observation.rights, observation.asked_for, own=observation.is_service),
        *configurations.check_scope(own, state.others, state.namespaces, settings.cluster.namespace),
        *configurations.check_outage(own, state.components, state.namespaces, safety(settings)),
        *configurations.check_others(mutating, state.others, chosen.name),
        *configurations.check_writers(state.label_writers, settings),
        *configurations.check_actors(state.rights, state.namespaces, settings),
        *cluster.check_policies(desired, workspace.maps, settings),
        *cluster.check_topology(settings, desired.catalog, state.topologies, state.machines),
        *cluster.check_scheduling(settings, mutating),
        *processes.check_replicas(workspace.deployments, workspace.pods, settings),
        *processes.check_lease(workspace.lease, workspace.pods, settings, now),
        *processes.check_placer(settings, observation.placer, now),
    ]


def _registration(settings: Settings, observation: InstallationState, desired: Desired) -> Iterator[Diagnosis]:
    made = desired.configurations
    for kind, observed in observation.cluster.own.items():
        want: Read[JsonObject | None] = made if isinstance(made, Unread) else made.get(kind)
        in_files = connection.is_static(observation.probe)
        yield from configurations.check_registration(kind, want, observed, settings.registration, in_files=in_files)


def _certificates(settings: Settings, observation: InstallationState, now: datetime) -> Iterator[Diagnosis]:
    own = {kind: entries(configuration) for kind, configuration in observation.cluster.own.items()}
    trusted, wrong = connection.trusts(own, settings)
    yield from wrong
    answered = connection.is_answered(observation.probe)
    yield from connection.check_certificates(observation.served, trusted, settings, now, proven=answered)
    yield from connection.check_secret(observation.workspace.secret, trusted, settings, now)
    yield from connection.check_leaf(observation.workspace.leaf, settings, now)


def _probe(settings: Settings, observation: InstallationState, desired: Desired, now: datetime) -> Iterator[Diagnosis]:
    probe, user, namespaces = observation.probe, observation.cluster.user, observation.cluster.namespaces
    if probe is None:
        return
    refused: Read[bool]
    if isinstance(probe, Unread):
        refused = probe
    elif isinstance(user, Unread):
        refused = Unread("the current user could not be determined")
    elif isinstance(desired.ruleset, Unread):
        refused = desired.ruleset
    else:
        known = {} if isinstance(namespaces, Unread) else namespaces
        refused = connection.is_refused(desired.ruleset, probe.namespace, user, known, now.date())
    yield connection.check_probe(probe, settings, should_refuse=refused)
