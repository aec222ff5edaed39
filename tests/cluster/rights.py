"""The rights of an account according to its roles, and those that it used according to the API server's audit log."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

from cluster import jsonlog

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from cluster.controlplane import ControlPlane


DOCTOR = "cks-admission-doctor"
"""The user agent of the command that people run in a Pod: what it may not look at, it says."""


class Right(NamedTuple):
    """One verb on one resource. name: of the one object, empty for all; namespace: empty for all."""

    verb: str
    group: str
    resource: str
    name: str = ""
    namespace: str = ""

    def covers(self, use: Right) -> bool:
        """Whether a use is one that this allows."""
        same = (self.verb, self.group, self.resource) == (use.verb, use.group, use.resource)
        return same and self.name in ("", use.name) and self.namespace in ("", use.namespace)


def granted(control_plane: ControlPlane, namespace: str, account: str) -> set[Right]:
    """Return all that roles and cluster roles grant to a service account by its name."""
    found: set[Right] = set()
    for binding in control_plane.get("clusterrolebindings")["items"]:
        if _is_for(binding, namespace, account):
            found |= set(_rules(control_plane.get("clusterrole", binding["roleRef"]["name"]), ""))
    for binding in control_plane.get("rolebindings", "-n", namespace)["items"]:
        if _is_for(binding, namespace, account):
            found |= set(_rules(control_plane.get("role", binding["roleRef"]["name"], "-n", namespace), namespace))
    return found


def used(control_plane: ControlPlane, namespace: str, account: str, *, since: int = 0) -> tuple[set[Right], list[str]]:
    """Return what a service account did, and the requests that it was forbidden. since: an earlier size of the log."""
    user = f"system:serviceaccount:{namespace}:{account}"
    found: set[Right] = set()
    forbidden: list[str] = []
    for event in jsonlog.entries(control_plane.audit_log, since):
        target = event.get("objectRef", {})
        if event["user"]["username"] != user or not target or event.get("userAgent") == DOCTOR:
            continue
        if event["responseStatus"]["code"] == HTTPStatus.FORBIDDEN:
            forbidden.append(f"{event['verb']} {event['requestURI']}: {event['responseStatus'].get('message', '')}")
        found |= set(_uses(event, target))
    return found, forbidden


def _uses(event: Mapping[str, Any], target: Mapping[str, Any]) -> Iterator[Right]:
    resource = "/".join(part for part in (target["resource"], target.get("subresource")) if part)
    place = target.get("apiGroup", ""), resource, target.get("name", ""), target.get("namespace", "")
    yield Right(event["verb"], *place)
    # What is applied and was not there is authorized as a creation, too.
    if event["verb"] == "patch" and event["responseStatus"]["code"] == HTTPStatus.CREATED:
        yield Right("create", *place)


def _is_for(binding: Mapping[str, Any], namespace: str, account: str) -> bool:
    wanted = ("ServiceAccount", namespace, account)
    return any((each["kind"], each.get("namespace"), each["name"]) == wanted for each in binding.get("subjects", ()))


def _rules(role: Mapping[str, Any], namespace: str) -> Iterator[Right]:
    for rule in role["rules"] or ():
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    for name in rule.get("resourceNames") or ("",):
                        yield Right(verb, group, resource, name, namespace)
