"""Compares a webhook configuration with its target, and decides what to write. Pure.

Others may add labels, annotations, owners and their own entries. To the service's entries they may add only the
requirements that a cloud adds to every webhook: for example, a condition that is never true would switch an entry off.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from policies.engine.facts import NAME_LABEL
from policies.engine.request import JsonObject
from policies.kubernetes import name
from webhook.configuration.settings import KeptRequirement
from webhook.registration.configurations import INJECT_CA_FROM, UNREGISTER, is_own
from webhook.registration.resources import API_VERSION

MANAGER = "cks-admission"
"""The field manager of the service's writes."""

_SELECTORS = frozenset({"namespaceSelector", "objectSelector"})


class Writer(NamedTuple):
    """A field manager and the time of its write, from managedFields; empty if unknown."""

    manager: str
    time: str


class Correction(NamedTuple):
    """What to do about an observed configuration.

    configuration: what to apply; None for nothing. differences: the reasons, a line each; empty if there is nothing to
    do.
    """

    configuration: JsonObject | None
    differences: Sequence[str]


class Managed(Struct, frozen=True):
    """A configuration, policy or binding that the service writes; None if there should be none.

    kept: what clouds may add to a configuration. Nobody adds to the spec of a policy.
    """

    configuration: JsonObject | None
    kept: tuple[KeptRequirement, ...] = ()

    def correction(self, observed: JsonObject | None) -> Correction:
        """The whole object is applied. An observed one that should not exist is a difference."""
        if self.configuration is None:
            return Correction(None, [] if observed is None else ["no rule needs it"])
        if observed is None:
            return Correction(self.configuration, ["it does not exist"])
        desired = kept(injected(self.configuration, observed), observed, self.kept)
        return Correction(_same_object(desired, observed), difference(desired, observed))

    def replacement(self, observed: JsonObject) -> JsonObject | None:
        """The observed object, with what belongs to the service exactly as desired."""
        if self.configuration is None:
            return None
        return restored(kept(injected(self.configuration, observed), observed, self.kept), observed)


class BundleOnly(Struct, frozen=True):
    """A configuration that somebody else applies, except for each entry's caBundle. bundle: PEM; empty for none."""

    bundle: bytes

    def correction(self, observed: JsonObject | None) -> Correction:
        """Only the caBundles of the service's entries are applied. A missing configuration is not created."""
        own = [] if observed is None else [entry for entry in _entries(observed) if is_own(entry)]
        if observed is None or not own or not self.bundle:
            return Correction(None, [])
        encoded = base64.b64encode(self.bundle).decode("ascii")
        desired = {
            "apiVersion": API_VERSION,
            "kind": observed["kind"],
            "metadata": {"name": observed["metadata"]["name"]},
            "webhooks": [{"name": entry["name"], "clientConfig": {"caBundle": encoded}} for entry in own],
        }
        differing = [entry["name"] for entry in own if entry["clientConfig"].get("caBundle") != encoded]
        return Correction(_same_object(desired, observed), [f"{name}: caBundle" for name in differing])

    def replacement(self, _: JsonObject) -> JsonObject | None:
        """None, because the service manages nothing else in it."""
        return None


WriteTarget = Managed | BundleOnly
"""The target of a configuration."""


def kept(desired: JsonObject, observed: JsonObject, allowed: Sequence[KeptRequirement]) -> JsonObject:
    """The desired configuration, with the allowed requirements that a cloud added to each entry's namespaceSelector."""
    there, webhooks = {entry["name"]: entry for entry in _entries(observed)}, []
    for entry in _entries(desired):
        own = _requirements(entry.get("namespaceSelector"))
        known = {_normal(requirement) for requirement in own}
        added = {
            _normal(requirement): requirement
            for requirement in _requirements(there.get(entry["name"], {}).get("namespaceSelector"))
            if _may_stay(requirement, allowed) and _normal(requirement) not in known
        }
        selector = {**entry.get("namespaceSelector", {}), "matchExpressions": [*own, *added.values()]}
        webhooks.append({**entry, "namespaceSelector": selector} if added else entry)
    return _with_entries(desired, webhooks)


def _with_entries(desired: JsonObject, webhooks: Sequence[JsonObject]) -> JsonObject:
    """The object with these entries, if it is one that has entries and not a spec."""
    return {**desired, "webhooks": webhooks} if "webhooks" in desired else desired


def injected(desired: JsonObject, observed: JsonObject) -> JsonObject:
    """The desired configuration, with the observed caBundles if cert-manager writes them.

    A new entry starts with the caBundle of another one: until cert-manager's injector writes it, the API server would
    otherwise refuse what fails closed. If the observed configuration lacks cert-manager's annotation, its caBundles are
    ignored, because somebody else wrote them.
    """
    if not all(
        INJECT_CA_FROM in (configuration["metadata"].get("annotations") or {}) for configuration in (desired, observed)
    ):
        return desired
    bundles = (entry["clientConfig"].get("caBundle") for entry in _entries(observed) if is_own(entry))
    return with_bundles(desired, observed, next(filter(None, bundles), None))


def with_bundles(desired: JsonObject, observed: JsonObject, other: str | None = None) -> JsonObject:
    """The desired configuration with the observed caBundles. other: the caBundle (base64) of entries without one."""
    bundles = {entry["name"]: entry["clientConfig"].get("caBundle") for entry in _entries(observed)}
    webhooks = []
    for entry in _entries(desired):
        bundle = bundles.get(entry["name"]) or other
        client = {**entry["clientConfig"], "caBundle": bundle} if bundle else entry["clientConfig"]
        webhooks.append({**entry, "clientConfig": client})
    return _with_entries(desired, webhooks)


def difference(desired: JsonObject, observed: JsonObject) -> list[str]:
    """The differences, a line each, for people. What others may add is not a difference."""
    metadata, wanted = observed["metadata"], desired["metadata"]
    differences = [
        f"{place[:-1]} {key}"
        for place in ("labels", "annotations")
        for key, value in (wanted.get(place) or {}).items()
        if (metadata.get(place) or {}).get(key) != value
    ]
    owners = {owner["uid"] for owner in metadata.get("ownerReferences") or ()}
    missing = (owner for owner in wanted.get("ownerReferences", ()) if owner["uid"] not in owners)
    differences += [f"owner {owner['kind']} {owner['name']}" for owner in missing]
    if "spec" in desired:
        spec, other_spec = desired["spec"], observed.get("spec") or {}
        fields = (
            field
            for field in sorted({*spec, *other_spec})
            if (spec.get(field) or None) != (other_spec.get(field) or None)
        )
        return differences + [f"spec.{field}" for field in fields]
    there = {entry["name"]: entry for entry in _entries(observed)}
    for entry in _entries(desired):
        other = there.pop(entry["name"], None)
        if other is None:
            differences.append(f"{entry['name']}: missing")
            continue
        # Only the fields that the service writes: newer ones are unknown here.
        for field, value in entry.items():
            here, elsewhere = (_comparable(field, side) for side in (value, other.get(field)))
            if here != elsewhere:
                differences.append(f"{entry['name']}: {_described(field, here, elsewhere)}")
    return [*differences, *(f"{entry['name']}: not wanted" for entry in there.values() if is_own(entry))]


def restored(desired: JsonObject, observed: JsonObject) -> JsonObject:
    """The observed object with the service's entries as desired, whoever owns the differing fields.

    Fields of an entry that this release does not know stay, because the API server may have set a default.
    """
    metadata = dict(observed["metadata"])
    for place in ("labels", "annotations"):
        if added := desired["metadata"].get(place):
            metadata[place] = {**(metadata.get(place) or {}), **added}
    if owners := desired["metadata"].get("ownerReferences"):
        others = [owner for owner in metadata.get("ownerReferences") or () if owner["uid"] != owners[0]["uid"]]
        metadata["ownerReferences"] = [*others, *owners]
    if "spec" in desired:
        return {**observed, "metadata": metadata, "spec": desired["spec"]}
    there = {entry["name"]: entry for entry in _entries(observed)}
    own = [{**there.get(entry["name"], {}), **entry} for entry in _entries(desired)]
    head = {"apiVersion": desired["apiVersion"], "kind": desired["kind"]}
    return {**observed, **head, "metadata": metadata, "webhooks": [*own, *foreign(observed)]}


def foreign(observed: JsonObject) -> list[JsonObject]:
    """The entries that do not belong to the service."""
    return [entry for entry in _entries(observed) if not is_own(entry)]


def is_unregistered(observed: JsonObject) -> bool:
    """Whether an annotation announces that it will be deleted permanently."""
    return (observed["metadata"].get("annotations") or {}).get(UNREGISTER) == "true"


def changed_by(observed: JsonObject) -> Writer:
    """Who else wrote to it last, as far as is known.

    It is unknown if something was only removed, because Kubernetes records who set a field.
    """
    entries = observed["metadata"].get("managedFields") or ()
    own = max((entry.get("time", "") for entry in entries if entry.get("manager") == MANAGER), default="")
    others = (Writer(entry.get("manager", ""), entry.get("time", "")) for entry in entries)
    later = [writer for writer in others if writer.manager not in ("", MANAGER) and writer.time >= own]
    return max(later, key=lambda writer: writer.time, default=Writer("", ""))


def _may_stay(requirement: JsonObject, allowed: Iterable[KeptRequirement]) -> bool:
    key, operator = requirement["key"], requirement["operator"]
    if operator == "DoesNotExist":
        # Every Namespace has its name as a label, so this requirement would exclude all.
        return key != NAME_LABEL and any(line.key == key for line in allowed)
    return operator == "NotIn" and any(
        line.key == key and all(name.matches_glob(value, line.values) for value in requirement["values"])
        for line in allowed
    )


def _comparable(field: str, value: Any) -> Any:
    """A field's value in a form that is equal if the meaning is. In most lists the order means nothing."""
    if field in _SELECTORS:
        selector = value or {}
        return selector.get("matchLabels") or {}, {_normal(requirement) for requirement in _requirements(selector)}
    if field == "matchConditions":
        return {condition["name"]: condition["expression"] for condition in value or ()}
    return value


def _described(field: str, desired: Any, observed: Any) -> str:
    """A description of the difference between two comparable values: the values if short, the keys of maps."""
    if isinstance(desired, dict) and isinstance(observed, dict):
        differing = sorted(key for key in desired.keys() | observed.keys() if desired.get(key) != observed.get(key))
        return f"{field} {', '.join(differing)}"
    if isinstance(desired, str | int):
        return f"{field} is {observed}, not {desired}"
    return field


def _same_object(desired: JsonObject, observed: JsonObject) -> JsonObject:
    """The desired configuration with the observed uid, so that applying it cannot recreate a deleted object."""
    return {**desired, "metadata": {**desired["metadata"], "uid": observed["metadata"]["uid"]}}


def _entries(configuration: JsonObject) -> Sequence[JsonObject]:
    return configuration.get("webhooks") or ()


def _requirements(selector: JsonObject | None) -> Sequence[JsonObject]:
    return (selector or {}).get("matchExpressions") or ()


def _normal(requirement: JsonObject) -> tuple[str, str, frozenset[str]]:
    return requirement["key"], requirement["operator"], frozenset(requirement.get("values") or ())
