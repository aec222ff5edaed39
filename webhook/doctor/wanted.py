"""What the settings come to with what is in the cluster: policies, rules, webhook configurations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING

from msgspec import Struct

from policies.admissionpolicy.params import StaticParameters
from policies.engine.request import JsonObject
from policies.engine.requester import CONTROL_PLANE, CONTROL_PLANE_LABEL
from policies.engine.ruleset import RuleSet
from policies.topology.catalog import Catalog
from webhook.configuration import rules
from webhook.configuration.rules import ClusterPolicies
from webhook.configuration.settings import Settings, SettingsError
from webhook.doctor.finding import Read, Unread, listed
from webhook.registration.configuration import registered
from webhook.sources import configmaps, natives, policyset
from webhook.sources.directories import Directories
from webhook.sources.policyset import Content

if TYPE_CHECKING:
    from webhook.cluster.watches.policymaps import PolicyMap


class Found(Struct, frozen=True):
    """What of the cluster has a say in the rules.

    namespaces: labels by name. maps: ConfigMaps with policies, by name. natives: the cluster's own policies that ask
    for rules, each with its bindings.
    """

    namespaces: Read[Mapping[str, Mapping[str, str]]]
    maps: Read[Mapping[str, PolicyMap]]
    natives: Read[Mapping[str, list[JsonObject]]]


class Wanted(Struct, frozen=True):
    """What should be there.

    configurations: by kind, those that rules need. policies: the names of those that can be used. refused: by source,
    why its policies cannot. doubts: what is no error in them, a line each.
    """

    catalog: Read[Catalog]
    ruleset: Read[RuleSet]
    configurations: Read[Mapping[str, JsonObject]]
    policies: Sequence[str] = ()
    refused: Mapping[str, str] = {}
    doubts: Sequence[str] = ()


async def make(settings: Settings, found: Found, today: date) -> Wanted:
    """What the settings come to. Files are read, the cluster is not asked."""
    policies = policyset.updated(policyset.EMPTY, await _contents(settings, found), today, rules.reserved())
    native, _ = natives.read({} if isinstance(found.natives, Unread) else found.natives, {})
    try:
        catalog = rules.topologies(settings)
        made = rules.of_policies(settings, policies.files, cluster=ClusterPolicies(StaticParameters(), native.loaded))
        ruleset = rules.build(settings, _control_plane(found), made, catalog)
    except SettingsError as error:
        unusable = Unread(f"the settings cannot be used here: {error}")
        return Wanted(unusable, unusable, unusable, refused=policies.refused)
    known = (*policies.files.loaded.policies, *native.loaded.policies)
    doubts = (*map(str, policies.files.loaded.warnings), *native.problems, *rules.unknown_names(settings, made))
    configurations = {str(each["kind"]): each for each in registered(settings, b"", ruleset)}
    return Wanted(
        catalog,
        ruleset,
        _not_known(policies.refused, found) or configurations,
        tuple(dict.fromkeys(policy.name for policy in known)),
        policies.refused,
        doubts,
    )


async def _contents(settings: Settings, found: Found) -> Mapping[str, Content]:
    """What the sources of policies hold, by their names."""
    contents = dict(await Directories(settings.policies.directories).contents())
    if not isinstance(found.maps, Unread):
        contents |= configmaps.contents(found.maps, settings.cluster.namespace, {})
    return contents


def _control_plane(found: Found) -> list[str]:
    known = {} if isinstance(found.namespaces, Unread) else found.namespaces
    return [name for name, labels in known.items() if labels.get(CONTROL_PLANE_LABEL) == CONTROL_PLANE]


def _not_known(refused: Mapping[str, str], found: Found) -> Unread | None:
    """Why it cannot be told what should be registered, None where it can."""
    if refused:
        return Unread(f"what was in force before {listed(list(refused))} was refused is not known")
    parts = {"Namespaces": found.namespaces, "ConfigMaps with policies": found.maps, "native policies": found.natives}
    unread = [what for what, read in parts.items() if isinstance(read, Unread)]
    return Unread(f"{listed(unread)} could not be looked at") if unread else None
