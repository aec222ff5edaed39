"""Defaults of Pods and of their templates that depend on other fields, as in defaults.py; and what Pods need together.

Sources, all in k8s.io/kubernetes v1.36.3: pkg/apis/core/v1 defaults.go, zz_generated.defaults.go and conversion.go
(fields that are written twice), pkg/registry/core/pod/strategy.go (label keys of affinity and of topology spread,
AppArmor). tests/cluster/test_pod_defaults.py compares whole Pods with those of a real API server.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from policies.admissionpolicy.builtin.reader import quantity_of
from policies.cel.library.quantity import EXACT, Large, Quantity, compare
from policies.engine.request import JsonObject, mapping, mappings
from policies.kubernetes.release import Release

_GROUPS = ("containers", "initContainers", "ephemeralContainers")
_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_HUGE_PAGES = "hugepages-"
_OVERCOMMITTED = frozenset({"cpu", "memory"})
_IMAGE = re.compile(
    r"(?:(?=[^/]*[A-Z.:]|localhost/)[a-zA-Z0-9.:\[\]-]+/)?[a-z0-9]+(?:[._/-]+[a-z0-9]+)*"
    r"(?::(?P<tag>[0-9A-Za-z_][0-9A-Za-z_.-]{0,127}))?(?P<digest>@sha(?:256:[0-9a-f]{64}|512:[0-9a-f]{128}))?"
)
_ID = re.compile("[a-f0-9]{64}")
_WHOLE_SINCE = (1, 37)
"""The release since which PodLevelResourcesFixDefaulting is on."""


def _pod(pod: JsonObject, release: Release) -> None:
    """What only a Pod gets, and no template."""
    metadata, spec = pod.get("metadata"), pod.get("spec")
    if not isinstance(spec, dict):
        return
    _request_what_is_limited(spec)
    _set_pod_resources(spec, is_whole=(release.major, release.minor) >= _WHOLE_SINCE)
    if spec.get("hostNetwork") is True:
        _use_host_ports(spec)
    period = spec.get("terminationGracePeriodSeconds")
    if isinstance(period, int) and period < 0:
        spec["terminationGracePeriodSeconds"] = 1
    _select_label_keys(mapping(metadata, "labels"), spec)
    _set_app_armor(mapping(metadata, "annotations"), spec)


def _pod_spec(spec: JsonObject, _: Release) -> None:
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account


def _container(container: JsonObject, _: Release) -> None:
    container.setdefault("imagePullPolicy", _pull_policy(container.get("image")))


def _volume(volume: JsonObject, _: Release) -> None:
    if volume.keys() <= {"name"}:
        volume["emptyDir"] = {}


def _image_volume(source: JsonObject, _: Release) -> None:
    source.setdefault("pullPolicy", _pull_policy(source.get("reference")))


def _pull_policy(image: object) -> str:
    """Always for the tag `latest`, explicit or implied, otherwise IfNotPresent."""
    name = _IMAGE.fullmatch(image) if isinstance(image, str) and not _ID.fullmatch(image) else None
    is_latest = name is not None and (name["tag"] or ("" if name["digest"] else "latest")) == "latest"
    return "Always" if is_latest else "IfNotPresent"


COMPUTED: Mapping[str, Callable[[JsonObject, Release], None]] = {
    "core.v1.Container": _container,
    "core.v1.EphemeralContainer": _container,
    "core.v1.ImageVolumeSource": _image_volume,
    "core.v1.Pod": _pod,
    "core.v1.PodSpec": _pod_spec,
    "core.v1.Volume": _volume,
}
"""By short name of the type, as in defaults.py."""


def _containers(spec: JsonObject, *groups: str) -> Iterator[JsonObject]:
    for group in groups or _GROUPS:
        yield from mappings(spec, group)


def _request_what_is_limited(spec: JsonObject) -> None:
    """Copy limits without a request into the requests (SetDefaults_Pod). Empty limits count as absent."""
    for container in _containers(spec, "containers", "initContainers"):
        resources = container.get("resources")
        limits = mapping(resources, "limits")
        if isinstance(resources, dict) and limits:
            requests = resources.setdefault("requests", {})
            if isinstance(requests, dict):
                resources["requests"] = {**limits, **requests}


def _use_host_ports(spec: JsonObject) -> None:
    for container in _containers(spec, "containers", "initContainers"):
        for port in mappings(container, "ports"):
            if port.get("containerPort"):
                port.setdefault("hostPort", port["containerPort"])


def affinity_terms(spec: JsonObject) -> list[JsonObject]:
    """The terms of a Pod's affinity to other Pods."""
    terms = []
    affinity = mapping(spec, "affinity")
    for kind in (mapping(affinity, "podAffinity"), mapping(affinity, "podAntiAffinity")):
        terms += mappings(kind, "requiredDuringSchedulingIgnoredDuringExecution")
        weighted = mappings(kind, "preferredDuringSchedulingIgnoredDuringExecution")
        terms += [mapping(term, "podAffinityTerm") for term in weighted]
    return terms


def _select_label_keys(labels: JsonObject, spec: JsonObject) -> None:
    """Add requirements with the Pod's own labels for `matchLabelKeys` and `mismatchLabelKeys`."""
    for term in (*mappings(spec, "topologySpreadConstraints"), *affinity_terms(spec)):
        selector = term.get("labelSelector")
        for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
            keys = term.get(field)
            if isinstance(selector, dict) and isinstance(keys, list):
                _require(selector, [key for key in keys if isinstance(key, str) and key in labels], operator, labels)


def _require(selector: JsonObject, keys: list[str], operator: str, labels: JsonObject) -> None:
    known = selector.get("matchExpressions", [])
    if not isinstance(known, list):
        return
    requirements = [{"key": key, "operator": operator, "values": [labels[key]]} for key in keys]
    if missing := [requirement for requirement in requirements if requirement not in known]:
        selector["matchExpressions"] = [*known, *missing]


def _set_app_armor(annotations: JsonObject, spec: JsonObject) -> None:
    """Copy AppArmor profiles from old annotations into fields, unless the Pod has the same one; not on Windows."""
    if mapping(spec, "os").get("name") == "windows":
        return
    of_pod = mapping(spec, "securityContext").get("appArmorProfile")
    for container in _containers(spec):
        profile = _app_armor_profile(annotations.get(f"{_APP_ARMOR}{container.get('name')}"))
        context = container.get("securityContext", {})
        if profile is None or profile == of_pod or not isinstance(context, dict) or "appArmorProfile" in context:
            continue
        container["securityContext"] = {**context, "appArmorProfile": profile}


def _app_armor_profile(annotation: object) -> JsonObject | None:
    match annotation:
        case "runtime/default":
            return {"type": "RuntimeDefault"}
        case "unconfined":
            return {"type": "Unconfined"}
        case str() if annotation.startswith("localhost/") and (name := annotation.removeprefix("localhost/")):
            return {"type": "Localhost", "localhostProfile": name} if name == name.strip() else None
        case _:
            return None


def _set_pod_resources(spec: JsonObject, *, is_whole: bool) -> None:
    """Complete the Pod's own limits and requests, if it has some, from those of its containers (KEP-2837).

    is_whole: whether requests alone are completed as well, and limits from requests (PodLevelResourcesFixDefaulting).
    """
    resources = spec.get("resources")
    limits, requests = (dict(mapping(resources, kind)) for kind in ("limits", "requests"))
    if not isinstance(resources, dict) or not (limits or requests):
        return
    for name, amount in aggregate(spec, "limits").items():
        if name.startswith(_HUGE_PAGES) and name not in requests:
            limits.setdefault(name, str(amount))
    if limits or is_whole:
        for name, amount in aggregate(spec, "requests").items():
            if name in _OVERCOMMITTED:
                requests.setdefault(name, str(amount))
        for name, text in limits.items():
            if is_of_a_pod(name):
                requests.setdefault(name, text)
    if is_whole:
        limits = {**_limits_of(spec, limits, requests), **limits}
    resources |= {kind: amounts for kind, amounts in (("limits", limits), ("requests", requests)) if amounts}


def _limits_of(spec: JsonObject, limits: JsonObject, requests: JsonObject) -> dict[str, str]:
    """The limits that all containers have and the Pod has not, if it requests them; at least what it requests."""
    containers = [mapping(container.get("resources"), "limits") for container in _containers(spec)]
    together = aggregate(spec, "limits")
    found = {}
    for name, text in requests.items():
        request = quantity_of(text)
        if name in limits or request is None or not is_of_a_pod(name) or name not in together:
            continue
        if all(name in own for own in containers):
            found[name] = str(_larger(together[name], request))
    return found


def is_of_a_pod(name: str) -> bool:
    """Whether a Pod can have a resource of its own, beside its containers."""
    return name in _OVERCOMMITTED or name.startswith(_HUGE_PAGES)


Amounts = dict[str, Quantity]


def aggregate(spec: JsonObject, kind: str) -> Amounts:
    """The resources that the containers need together. Init containers run before them, beside preceding sidecars."""
    together: Amounts = {}
    for container in _containers(spec, "containers"):
        _combine(together, amounts_of(container, kind), _sum)
    sidecars: Amounts = {}
    most: Amounts = {}
    for container in _containers(spec, "initContainers"):
        own = amounts_of(container, kind)
        if container.get("restartPolicy") == "Always":
            _combine(together, own, _sum)
            _combine(sidecars, own, _sum)
            own = sidecars
        else:
            _combine(own, sidecars, _sum)
        _combine(most, own, _larger)
    _combine(together, most, _larger)
    return together


def amounts_of(container: JsonObject, kind: str) -> Amounts:
    """The requests or limits of a container, or of a Pod."""
    return quantities(mapping(container.get("resources"), kind))


def quantities(listed: JsonObject) -> Amounts:
    """The amounts in a map; what is none is left out."""
    return {name: amount for name, value in listed.items() if (amount := quantity_of(value)) is not None}


def _combine(amounts: Amounts, others: Amounts, combined: Callable[[Quantity, Quantity], Quantity]) -> None:
    for name, other in others.items():
        amounts[name] = combined(amounts[name], other) if name in amounts else other


def _sum(left: Quantity, right: Quantity) -> Quantity:
    number = EXACT.add(left.amount.decimal, right.amount.decimal)
    return Quantity(Large(number, 0), left.form if left.amount.decimal else right.form)


def _larger(left: Quantity, right: Quantity) -> Quantity:
    return right if compare(right.amount, left.amount) > 0 else left
