"""What others made of a webhook configuration, and what is to be written about it. Pure.

Others may add labels, annotations, owners and entries of their own. In the service's entries nothing may be added, as a
condition that is never true would switch them off, but for the requirements that a cloud adds to every webhook.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from msgspec import Struct

from policies import glob
from policies.engine.facts import NAME_LABEL
from policies.engine.request import JsonObject
from webhook.configuration.settings import KeptRequirement
from webhook.registration.configurations import API_VERSION, INJECT_CA_FROM, UNREGISTER, is_own

MANAGER = "cks-admission"
"""The field manager under which the service writes."""

_SELECTORS = frozenset({"namespaceSelector", "objectSelector"})


class Writer(NamedTuple):
    """A field manager, and when it wrote, as managedFields have it; empty where that is not known."""

    manager: str
    time: str


class Correction(Struct, frozen=True):
    """What is to be done about a configuration as it was found.

    configuration: what to apply, None for nothing. differences: why, a line each; empty where all is as it should be.
    """

    configuration: JsonObject | None
    differences: Sequence[str]


class WriteTarget(Protocol):
    """What a configuration should be like."""

    def correction(self, observed: JsonObject | None) -> Correction:
        """What is to be done about it as it was found; None where there is none."""

    def replacement(self, observed: JsonObject) -> JsonObject | None:
        """What to put in its place where applying a correction did not help; None where nothing else can be done."""


class Managed(Struct, frozen=True):
    """A configuration that the service writes, None where there should be none. kept: what clouds may add to it."""

    configuration: JsonObject | None
    kept: tuple[KeptRequirement, ...] = ()

    def correction(self, observed: JsonObject | None) -> Correction:
        """All of it is applied. Where there should be none, the one that exists has to go."""
        if self.configuration is None:
            return Correction(None, [] if observed is None else ["no rule needs it"])
        if observed is None:
            return Correction(self.configuration, ["it does not exist"])
        desired = kept(injected(self.configuration, observed), observed, self.kept)
        return Correction(_same_object(desired, observed), difference(desired, observed))

    def replacement(self, observed: JsonObject) -> JsonObject | None:
        """The object that was found, with the service's entries just as they are desired."""
        if self.configuration is None:
            return None
        return restored(kept(injected(self.configuration, observed), observed, self.kept), observed)


class BundleOnly(Struct, frozen=True):
    """A configuration that somebody else applies, but for the caBundle of each entry. bundle: PEM, empty for none."""

    bundle: bytes

    def correction(self, observed: JsonObject | None) -> Correction:
        """What does not exist is not made; entries of other services are not touched."""
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
        """Nothing: what else is in it is not the service's business."""
        return None


def kept(desired: JsonObject, observed: JsonObject, allowed: Iterable[KeptRequirement]) -> JsonObject:
    """What is desired, and in the namespaceSelector of each entry what a cloud added to it and is allowed to."""
    observed_entries, allowed = {entry["name"]: entry for entry in _entries(observed)}, tuple(allowed)
    webhooks = [_with_kept(entry, observed_entries.get(entry["name"], {}), allowed) for entry in _entries(desired)]
    return {**desired, "webhooks": webhooks}


def injected(desired: JsonObject, observed: JsonObject) -> JsonObject:
    """What is desired, with the caBundles that are cert-manager's to write, where they are, as they were found.

    A new entry begins with that of another one: cert-manager's injector comes after the API server, which would
    meanwhile refuse what fails closed. What was there before cert-manager was told to come is somebody else's.
    """
    if not all(
        INJECT_CA_FROM in (configuration["metadata"].get("annotations") or {}) for configuration in (desired, observed)
    ):
        return desired
    bundles = (entry["clientConfig"].get("caBundle") for entry in _entries(observed) if is_own(entry))
    return with_bundles(desired, observed, next(filter(None, bundles), None))


def with_bundles(desired: JsonObject, observed: JsonObject, other: str | None = None) -> JsonObject:
    """What is desired, with the caBundles that were found. other: one (base64) for entries for which none was."""
    bundles = {entry["name"]: entry["clientConfig"].get("caBundle") for entry in _entries(observed)}
    return {
        **desired,
        "webhooks": [_with_bundle(entry, bundles.get(entry["name"]) or other) for entry in _entries(desired)],
    }


def difference(desired: JsonObject, observed: JsonObject) -> list[str]:
    """What of the desired is not so, for people, a line each; what others added to their own ends is no difference."""
    metadata = observed["metadata"]
    differences = [
        f"{place[:-1]} {key}"
        for place in ("labels", "annotations")
        for key, value in (desired["metadata"].get(place) or {}).items()
        if (metadata.get(place) or {}).get(key) != value
    ]
    owners = {owner["uid"] for owner in metadata.get("ownerReferences") or ()}
    differences += [
        f"owner {owner['kind']} {owner['name']}"
        for owner in desired["metadata"].get("ownerReferences", ())
        if owner["uid"] not in owners
    ]
    there = {entry["name"]: entry for entry in _entries(observed)}
    for entry in _entries(desired):
        name = entry["name"]
        other = there.pop(name, None)
        differences += [f"{name}: missing"] if other is None else _entry_difference(entry, other)
    return [*differences, *(f"{entry['name']}: not wanted" for entry in there.values() if is_own(entry))]


def restored(desired: JsonObject, observed: JsonObject) -> JsonObject:
    """The observed object with the service's entries as they are desired, whoever owns what was different in them.

    Fields of an entry that this release does not know stay: the API server may have given them a default.
    """
    there = {entry["name"]: entry for entry in _entries(observed)}
    own = [{**there.get(entry["name"], {}), **entry} for entry in _entries(desired)]
    metadata = dict(observed["metadata"])
    for place in ("labels", "annotations"):
        if added := desired["metadata"].get(place):
            metadata[place] = {**(metadata.get(place) or {}), **added}
    if owners := desired["metadata"].get("ownerReferences"):
        others = [owner for owner in metadata.get("ownerReferences") or () if owner["uid"] != owners[0]["uid"]]
        metadata["ownerReferences"] = [*others, *owners]
    head = {"apiVersion": desired["apiVersion"], "kind": desired["kind"]}
    return {**observed, **head, "metadata": metadata, "webhooks": [*own, *foreign(observed)]}


def foreign(observed: JsonObject) -> list[JsonObject]:
    """The entries that are not the service's."""
    return [entry for entry in _entries(observed) if not is_own(entry)]


def is_unregistered(observed: JsonObject) -> bool:
    """Whether it says that it is about to be deleted for good."""
    return (observed["metadata"].get("annotations") or {}).get(UNREGISTER) == "true"


def changed_by(observed: JsonObject) -> Writer:
    """Who else wrote last into it, as far as that can be told.

    It cannot where something was only taken away: Kubernetes notes who set what.
    """
    entries = observed["metadata"].get("managedFields") or ()
    own = max((entry.get("time", "") for entry in entries if entry.get("manager") == MANAGER), default="")
    others = (Writer(entry.get("manager", ""), entry.get("time", "")) for entry in entries)
    later = [writer for writer in others if writer.manager not in ("", MANAGER) and writer.time >= own]
    return max(later, key=lambda writer: writer.time, default=Writer("", ""))


def _with_bundle(entry: JsonObject, bundle: str | None) -> JsonObject:
    return {**entry, "clientConfig": {**entry["clientConfig"], "caBundle": bundle}} if bundle else entry


def _with_kept(entry: JsonObject, other: JsonObject, allowed: Sequence[KeptRequirement]) -> JsonObject:
    own = _requirements(entry.get("namespaceSelector"))
    known = {_normal(requirement) for requirement in own}
    added = {
        _normal(requirement): requirement
        for requirement in _requirements(other.get("namespaceSelector"))
        if _may_stay(requirement, allowed) and _normal(requirement) not in known
    }
    if not added:
        return entry
    selector = {**entry.get("namespaceSelector", {}), "matchExpressions": [*own, *added.values()]}
    return {**entry, "namespaceSelector": selector}


def _may_stay(requirement: JsonObject, allowed: Iterable[KeptRequirement]) -> bool:
    key, operator = requirement["key"], requirement["operator"]
    if operator == "DoesNotExist":
        # Every Namespace has its name as a label: none would be left.
        return key != NAME_LABEL and any(line.key == key for line in allowed)
    return operator == "NotIn" and any(
        line.key == key and all(glob.matches(value, line.values) for value in requirement["values"]) for line in allowed
    )


def _entry_difference(desired: JsonObject, observed: JsonObject) -> list[str]:
    """The fields of an entry that differ, out of those that the service writes: later ones are not known here."""
    differences = []
    for field, value in desired.items():
        here, there = (_comparable(field, side) for side in (value, observed.get(field)))
        if here != there:
            differences.append(f"{desired['name']}: {_said(field, here, there)}")
    return differences


def _comparable(field: str, value: Any) -> Any:
    """A value of a field such that equal ones mean the same: in most lists the order means nothing."""
    if field in _SELECTORS:
        selector = value or {}
        return selector.get("matchLabels") or {}, {_normal(requirement) for requirement in _requirements(selector)}
    if field == "matchConditions":
        return {condition["name"]: condition["expression"] for condition in value or ()}
    return value


def _said(field: str, desired: Any, observed: Any) -> str:
    """What differs in a field, of the values to compare: short ones themselves, of maps the keys."""
    if isinstance(desired, dict) and isinstance(observed, dict):
        differing = sorted(key for key in desired.keys() | observed.keys() if desired.get(key) != observed.get(key))
        return f"{field} {', '.join(differing)}"
    if isinstance(desired, str | int):
        return f"{field} is {observed}, not {desired}"
    return field


def _same_object(desired: JsonObject, observed: JsonObject) -> JsonObject:
    """What is desired of this very object: should it be deleted meanwhile, applying it must not make it again."""
    return {**desired, "metadata": {**desired["metadata"], "uid": observed["metadata"]["uid"]}}


def _entries(configuration: JsonObject) -> Sequence[JsonObject]:
    return configuration.get("webhooks") or ()


def _requirements(selector: JsonObject | None) -> Sequence[JsonObject]:
    return (selector or {}).get("matchExpressions") or ()


def _normal(requirement: JsonObject) -> tuple[str, str, frozenset[str]]:
    return requirement["key"], requirement["operator"], frozenset(requirement.get("values") or ())
