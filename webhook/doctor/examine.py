"""All checks of an installation, in the order in which people should read what they find."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from policies.engine.request import JsonObject
from webhook.configuration.settings import Settings
from webhook.doctor import (
    address,
    apiserver,
    certificate,
    others,
    policies,
    probe,
    registered,
    replicas,
    rights,
    scope,
    topology,
)
from webhook.doctor.finding import Diagnosis, Read, Unread
from webhook.doctor.seen import Observation
from webhook.doctor.wanted import Desired
from webhook.registration.configuration import KINDS


def examine(settings: Settings, seen: Observation, wanted: Desired, now: datetime) -> list[Diagnosis]:
    """What was found, by check."""
    cluster, workspace, chosen = seen.cluster, seen.workspace, settings.registration
    own = cluster.own
    return [
        *apiserver.check(cluster.version, cluster.groups, settings),
        *_registration(settings, seen, wanted),
        *address.check(settings, workspace.service, workspace.slices),
        *_certificates(settings, seen, now),
        *_probe(seen, wanted, now),
        *rights.check(seen.rights, seen.asked_for, own=seen.is_service),
        *scope.check(own, cluster.others, cluster.namespaces, settings.cluster.namespace),
        *others.check(own[KINDS["mutate"]], cluster.others, chosen.name),
        *policies.check(wanted, workspace.maps, settings),
        *topology.check(settings, wanted.catalog, cluster.topologies, cluster.machines),
        *replicas.check(workspace.deployments, workspace.pods, settings),
        *replicas.check_lease(workspace.lease, workspace.pods, settings, now),
    ]


def _registration(settings: Settings, seen: Observation, wanted: Desired) -> Iterator[Diagnosis]:
    for kind, observed in seen.cluster.own.items():
        configurations = wanted.configurations
        want: Read[JsonObject | None] = (
            configurations if isinstance(configurations, Unread) else configurations.get(kind)
        )
        yield from registered.check(kind, want, observed, settings.registration)


def _certificates(settings: Settings, seen: Observation, now: datetime) -> Iterator[Diagnosis]:
    own = {kind: registered.entries(configuration) for kind, configuration in seen.cluster.own.items()}
    trusted, wrong = certificate.trusts(own, settings)
    yield from wrong
    answered = probe.is_answered(seen.probe)
    yield from certificate.check(seen.served, trusted, settings, now, proven=answered)
    yield from certificate.check_secret(seen.workspace.secret, trusted, settings, now)


def _probe(seen: Observation, wanted: Desired, now: datetime) -> Iterator[Diagnosis]:
    if seen.probe is None:
        return
    refused: Read[bool]
    if isinstance(seen.probe, Unread):
        refused = seen.probe
    elif isinstance(seen.cluster.user, Unread):
        refused = Unread("the current user could not be determined")
    elif isinstance(wanted.ruleset, Unread):
        refused = wanted.ruleset
    else:
        known = {} if isinstance(seen.cluster.namespaces, Unread) else seen.cluster.namespaces
        namespace = seen.probe.namespace
        refused = probe.expected(wanted.ruleset, namespace, seen.cluster.user, known, now.date())
    yield probe.check(seen.probe, wanted=refused)
