"""All checks of an installation, in the order in which people should read the results."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from policies.engine.request import JsonObject
from webhook.configuration.safety import safety
from webhook.configuration.settings import Settings
from webhook.doctor import (
    address,
    apiserver,
    certificate,
    otherwebhooks,
    placer,
    policies,
    probe,
    registration,
    replicas,
    rights,
    scope,
    topology,
)
from webhook.doctor.desired import Desired
from webhook.doctor.diagnosis import Diagnosis, Read, Unread
from webhook.doctor.observation import InstallationState
from webhook.registration.configurations import KINDS


def examine(settings: Settings, observation: InstallationState, desired: Desired, now: datetime) -> list[Diagnosis]:
    """The diagnoses of all checks, in their order."""
    cluster, workspace, chosen = observation.cluster, observation.workspace, settings.registration
    own = cluster.own
    return [
        *apiserver.check(cluster.version, cluster.groups, settings),
        *_registration(settings, observation, desired),
        *address.check(settings, workspace.service, workspace.slices),
        *_certificates(settings, observation, now),
        *_probe(observation, desired, now),
        *rights.check(observation.rights, observation.asked_for, own=observation.is_service),
        *scope.check(own, cluster.others, cluster.namespaces, settings.cluster.namespace),
        *scope.check_outage(own, cluster.components, cluster.namespaces, safety(settings)),
        *otherwebhooks.check(own[KINDS["mutate"]], cluster.others, chosen.name),
        *otherwebhooks.check_writers(cluster.label_writers, settings),
        *policies.check(desired, workspace.maps, settings),
        *topology.check(settings, desired.catalog, cluster.topologies, cluster.machines),
        *topology.check_scheduling(settings, own[KINDS["mutate"]]),
        *replicas.check(workspace.deployments, workspace.pods, settings),
        *replicas.check_lease(workspace.lease, workspace.pods, settings, now),
        *placer.check(settings, observation.placer, now),
    ]


def _registration(settings: Settings, observation: InstallationState, desired: Desired) -> Iterator[Diagnosis]:
    for kind, observed in observation.cluster.own.items():
        configurations = desired.configurations
        want: Read[JsonObject | None] = (
            configurations if isinstance(configurations, Unread) else configurations.get(kind)
        )
        yield from registration.check(kind, want, observed, settings.registration)


def _certificates(settings: Settings, observation: InstallationState, now: datetime) -> Iterator[Diagnosis]:
    own = {kind: registration.entries(configuration) for kind, configuration in observation.cluster.own.items()}
    trusted, wrong = certificate.trusts(own, settings)
    yield from wrong
    answered = probe.is_answered(observation.probe)
    yield from certificate.check(observation.served, trusted, settings, now, proven=answered)
    yield from certificate.check_secret(observation.workspace.secret, trusted, settings, now)
    yield from certificate.check_leaf(observation.workspace.leaf, settings, now)


def _probe(observation: InstallationState, desired: Desired, now: datetime) -> Iterator[Diagnosis]:
    if observation.probe is None:
        return
    refused: Read[bool]
    if isinstance(observation.probe, Unread):
        refused = observation.probe
    elif isinstance(observation.cluster.user, Unread):
        refused = Unread("the current user could not be determined")
    elif isinstance(desired.ruleset, Unread):
        refused = desired.ruleset
    else:
        known = {} if isinstance(observation.cluster.namespaces, Unread) else observation.cluster.namespaces
        namespace = observation.probe.namespace
        refused = probe.expected(desired.ruleset, namespace, observation.cluster.user, known, now.date())
    yield probe.check(observation.probe, should_refuse=refused)
