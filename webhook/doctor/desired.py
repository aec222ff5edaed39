"""The desired state: the policies, rules and webhook configurations that follow from the settings and the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date

from msgspec import Struct

from policies.engine.request import JsonObject
from policies.engine.rule import RuleSet
from policies.engine.safety import CONTROL_PLANE, CONTROL_PLANE_LABEL
from policies.engine.violation import listed
from policies.kubernetes.release import NEWEST, Release
from policies.topology.topology import Catalog
from webhook.configuration import rules
from webhook.configuration.settings import Settings, SettingsError
from webhook.decisions import shadow
from webhook.decisions.shadow import Unasked
from webhook.doctor.observation import PolicySource, Read, Unread
from webhook.registration.configurations import policy, registered, without_guard
from webhook.sources import policyset
from webhook.sources.policykeeper import shadowed
from webhook.sources.policyset import Directories


class Desired(Struct, frozen=True):
    """The desired state.

    configurations: the webhook configurations that rules need, by kind, and the policy of reserved labels with its
    binding. policies: names of usable policies. replaced: names of shipped ones whose place others take. refused: why
    the policies of a source cannot be used, by source. doubts: warnings about policies, a line each. unasked: shadow
    policies that are not asked about all that they are for.
    """

    catalog: Read[Catalog]
    ruleset: Read[RuleSet]
    configurations: Read[Mapping[str, JsonObject]]
    policies: Sequence[str] = ()
    replaced: Sequence[str] = ()
    refused: Mapping[str, str] = {}
    doubts: Sequence[str] = ()
    unasked: Sequence[Unasked] = ()


async def make(
    settings: Settings,
    namespaces: Read[Mapping[str, Mapping[str, str]]],
    maps: Read[Mapping[str, PolicySource]],
    natives: Read[Mapping[str, list[JsonObject]]],
    today: date,
    release: Release = NEWEST,
    *,
    is_static: bool = True,
) -> Desired:
    """The desired state, for what was read of the cluster. Reads files, but does not contact the cluster.

    release: the one by whose rules policies are judged. is_static: whether the guard of reserved labels may be in files
    of the API server. For the other arguments see InstallationState.
    """
    known_labels = {} if isinstance(namespaces, Unread) else namespaces
    control_plane = [name for name, labels in known_labels.items() if labels.get(CONTROL_PLANE_LABEL) == CONTROL_PLANE]
    units = [*await Directories(settings.policies.directories).units(release)]
    if not isinstance(maps, Unread):
        data = {name: policy_map.data for name, policy_map in maps.items()}
        units += policyset.configmap_units(settings.cluster.namespace, data, release)
    policies = policyset.updated(
        policyset.EMPTY, await policyset.read(units, release), today, rules.reserved(), release
    )
    native = await policyset.read_native({} if isinstance(natives, Unread) else natives, release)
    try:
        catalog = rules.topologies(settings)
        made = rules.of_policies(settings, policies.files, native=native)
        ruleset = rules.build(settings, control_plane, made, catalog)
        in_shadow, unasked = await _shadow(settings, catalog, ruleset, release, today)
    except SettingsError as error:
        unusable = Unread(f"the settings cannot be used here: {error}")
        return Desired(unusable, unusable, unusable, refused=policies.refused)
    known = (*policies.files.loaded.policies, *native.loaded.policies, *made.shipped)
    doubts = (*map(str, policies.files.loaded.warnings), *native.problems, *rules.unknown_names(settings, made))
    configurations = {str(configuration["kind"]): configuration for configuration in registered(settings, b"", ruleset)}
    if is_static and settings.labels.enforced_by == "static":
        configurations = without_guard(configurations)
    elif rules.enforces_labels(settings, release):
        spec = rules.labels_policy(settings, control_plane, ruleset.exceptions, today)
        configurations = {**without_guard(configurations), **policy(settings.registration.name, spec)}
    unknown, parts = None, {"Namespaces": namespaces, "ConfigMaps with policies": maps, "native policies": natives}
    if policies.refused:
        unknown = Unread(f"it is unknown what was in force before {listed(list(policies.refused))} was refused")
    elif unread := [what for what, part in parts.items() if isinstance(part, Unread)]:
        unknown = Unread(f"{listed(unread)} could not be read")
    return Desired(
        catalog,
        ruleset,
        unknown or configurations,
        tuple(dict.fromkeys(policy.name for policy in known)),
        made.replaced,
        policies.refused,
        (*doubts, *in_shadow),
        unasked,
    )


async def _shadow(
    settings: Settings, catalog: Catalog, real: RuleSet, release: Release, today: date
) -> tuple[tuple[str, ...], tuple[Unasked, ...]]:
    """Which shadow policies are refused or not asked, and why. real: the rules in force. Raises SettingsError."""
    if not settings.policies.shadow:
        return (), ()
    own = shadowed(settings)
    contents = await policyset.read(await Directories(own.policies.directories).units(release), release)
    read = policyset.updated(policyset.EMPTY, contents, today, rules.reserved(), release)
    made = rules.of_policies(own, read.files)
    beside = shadow.beside(made, rules.build(own, (), made, catalog), real)
    refused = tuple(f"those in the shadow are refused: {where}: {why}" for where, why in read.refused.items())
    return refused, shadow.unasked(made, beside, real)
