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


class ClusterPolicyState(Struct, frozen=True):
    """The state of the cluster that affects the rules.

    namespaces: labels by name. maps: ConfigMaps with policies, by name. natives: the cluster's own policies by
    name, those with derived rules with their bindings, the others empty. release: the one by whose rules policies are
    judged. is_static: whether the guard of reserved labels may be in files of the API server.
    """

    namespaces: Read[Mapping[str, Mapping[str, str]]]
    maps: Read[Mapping[str, PolicySource]]
    natives: Read[Mapping[str, list[JsonObject]]]
    release: Release = NEWEST
    is_static: bool = True


class Desired(Struct, frozen=True):
    """The desired state.

    configurations: the webhook configurations that rules need, by kind, and the policy of reserved labels with its
    binding. policies: names of usable policies. replaced:
    names of shipped ones whose place others take.
    refused: why the policies of a source cannot be used, by source. doubts: warnings about policies, a line each.
    unasked: shadow policies that are not asked about all that they are for.
    """

    catalog: Read[Catalog]
    ruleset: Read[RuleSet]
    configurations: Read[Mapping[str, JsonObject]]
    policies: Sequence[str] = ()
    replaced: Sequence[str] = ()
    refused: Mapping[str, str] = {}
    doubts: Sequence[str] = ()
    unasked: Sequence[Unasked] = ()


async def make(settings: Settings, state: ClusterPolicyState, today: date) -> Desired:
    """The desired state. Reads files, but does not contact the cluster."""
    units = [*await Directories(settings.policies.directories).units(state.release)]
    if not isinstance(state.maps, Unread):
        data = {name: policy_map.data for name, policy_map in state.maps.items()}
        units += policyset.configmap_units(settings.cluster.namespace, data, state.release)
    policies = policyset.updated(
        policyset.EMPTY, await policyset.read(units, state.release), today, rules.reserved(), state.release
    )
    natives = {} if isinstance(state.natives, Unread) else state.natives
    native = await policyset.read_native(natives, state.release)
    try:
        catalog = rules.topologies(settings)
        made = rules.of_policies(settings, policies.files, native=native)
        ruleset = rules.build(settings, _control_plane(state), made, catalog)
        in_shadow, unasked = await _shadow(settings, catalog, ruleset, state.release, today)
    except SettingsError as error:
        unusable = Unread(f"the settings cannot be used here: {error}")
        return Desired(unusable, unusable, unusable, refused=policies.refused)
    known = (*policies.files.loaded.policies, *native.loaded.policies, *made.shipped)
    doubts = (*map(str, policies.files.loaded.warnings), *native.problems, *rules.unknown_names(settings, made))
    configurations = {str(configuration["kind"]): configuration for configuration in registered(settings, b"", ruleset)}
    if state.is_static and settings.labels.enforced_by == "static":
        configurations = without_guard(configurations)
    elif rules.enforces_labels(settings, state.release):
        spec = rules.labels_policy(settings, _control_plane(state), ruleset.exceptions, today)
        configurations = {**without_guard(configurations), **policy(settings.registration.name, spec)}
    return Desired(
        catalog,
        ruleset,
        _not_known(policies.refused, state) or configurations,
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


def _control_plane(state: ClusterPolicyState) -> list[str]:
    known = {} if isinstance(state.namespaces, Unread) else state.namespaces
    return [name for name, labels in known.items() if labels.get(CONTROL_PLANE_LABEL) == CONTROL_PLANE]


def _not_known(refused: Mapping[str, str], state: ClusterPolicyState) -> Unread | None:
    """Why the desired registration is unknown; None if it is known."""
    if refused:
        return Unread(f"it is unknown what was in force before {listed(list(refused))} was refused")
    parts = {"Namespaces": state.namespaces, "ConfigMaps with policies": state.maps, "native policies": state.natives}
    unread = [what for what, read in parts.items() if isinstance(read, Unread)]
    return Unread(f"{listed(unread)} could not be read") if unread else None
