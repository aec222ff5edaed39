"""What a Pod asks for, and what a Node has, counted as kube-scheduler counts it.

Sources: PodRequests in k8s.io/component-helpers resource/helpers.go; Resource.Add in kube-scheduler's
framework/types.go for which resources count; defaultPodRequests in Kubernetes' pkg/apis/core/v1/defaults.go, since a
template has not got the defaults that its Pods get.
"""

from __future__ import annotations

from collections.abc import Mapping

from policies.podspec import thousandths
from policies.topology.gang.gang import PODS, Amounts
from policies.topology.nodes.manifest import Container, ContainerStatus, PodManifest, PodStatus, Quantities, Resources

CPU = "cpu"
_HUGE_PAGES = "hugepages-"
_OF_KUBERNETES = frozenset({CPU, "memory", "ephemeral-storage", PODS})
# Amounts above this, 256 TiB, cannot be meant. So the sum of all Pods on a Node stays within 64 bits.
_MOST = 2**48

Thousandths = dict[str, int]


def requests(pod: PodManifest) -> Amounts:
    """What a Pod or a template asks for, one of PODS included, without resources of which it asks for none.

    These are its containers and sidecars, or more where an init container needs more beside the sidecars before it; the
    resources of the whole Pod in their place; and its overhead. A limit without a request counts as the request. While
    a Pod is resized, the larger of what it has and what it is to have counts. Raises ValueError for a malformed amount.
    """
    spec = pod.spec
    total = _of_containers(pod)
    if spec.resources is not None:
        total |= _of_pod(spec.resources, total, pod.status)
    if spec.overhead:
        _add(total, _counted(spec.overhead))
    total[PODS] = 1000
    return _amounts(total)


def allocatable(quantities: Quantities | None) -> Amounts:
    """What a Node has for Pods. Raises ValueError for a malformed amount."""
    return _amounts(_counted(quantities or {}))


def _of_containers(pod: PodManifest) -> Thousandths:
    """The sum of containers and sidecars, or what the start of an init container takes if that is more."""
    statuses = _statuses(pod.status)
    is_infeasible = bool(statuses) and _is_infeasible(pod.status)
    total: Thousandths = {}
    sidecars: Thousandths = {}
    peak: Thousandths = {}
    for container in pod.spec.init_containers or ():
        if container.restart_policy == "Always":
            _add(sidecars, _of_container(container, statuses, is_infeasible=is_infeasible))
            _raise(peak, sidecars)
        else:
            own = _requested(container.resources)
            _add(own, sidecars)
            _raise(peak, own)
    for container in pod.spec.containers or ():
        _add(total, _of_container(container, statuses, is_infeasible=is_infeasible))
    _add(total, sidecars)
    _raise(total, peak)
    return total


def _of_container(container: Container, statuses: Mapping[str, ContainerStatus], *, is_infeasible: bool) -> Thousandths:
    spec = _requested(container.resources)
    status = statuses.get(container.name) if statuses else None
    if status is None or status.resources is None:
        return spec
    has = _largest(status.resources.requests, status.allocated_resources)
    if not is_infeasible:
        _raise(has, spec)
    return has


def _of_pod(resources: Resources, containers: Thousandths, status: PodStatus) -> Thousandths:
    """What is asked for the whole Pod: cpu, memory and huge pages can be.

    containers: what its containers ask for; it is the request where there is only a limit, but for huge pages.
    """
    asked = {name: amount for name, amount in _counted(resources.requests or {}).items() if _is_of_pod(name)}
    if asked and status.resources is not None:
        has = _largest(status.resources.requests, status.allocated_resources)
        if not _is_infeasible(status):
            _raise(has, asked)
        asked = {name: has.get(name, 0) for name in asked}
    limits = {name: amount for name, amount in _counted(resources.limits or {}).items() if _is_of_pod(name)}
    return limits | {name: containers[name] for name in limits if _is_shared(name) and name in containers} | asked


def _is_of_pod(name: str) -> bool:
    return name in (CPU, "memory") or name.startswith(_HUGE_PAGES)


def _is_shared(name: str) -> bool:
    """Whether containers may use more of it than they ask for."""
    return not name.startswith(_HUGE_PAGES)


def _requested(resources: Resources | None) -> Thousandths:
    if resources is None:
        return {}
    if not resources.limits:
        return _counted(resources.requests or {})
    return _counted({**resources.limits, **(resources.requests or {})})


def _counted(quantities: Quantities) -> Thousandths:
    """The resources that the scheduler counts. Raises ValueError for a malformed amount."""
    return {
        name: _amount(name, quantity)
        for name, quantity in quantities.items()
        if name in _OF_KUBERNETES
        or ("/" in name and not name.startswith("requests."))
        or name.startswith((_HUGE_PAGES, "attachable-volumes-"))
    }


def _amount(name: str, quantity: str | float) -> int:
    is_device = "/" in name
    try:
        amount = thousandths(quantity)
    except ValueError:
        amount = None
    if amount is None or (is_device and amount % 1000):
        expected = "a whole number of devices" if is_device else "an amount such as 8, 500m or 1.5Gi"
        raise ValueError(f"{name} is {quantity!r}; {expected} was expected") from None
    return amount


def _statuses(status: PodStatus) -> Mapping[str, ContainerStatus]:
    return {s.name: s for s in (*(status.container_statuses or ()), *(status.init_container_statuses or ()))}


def _is_infeasible(status: PodStatus) -> bool:
    """Whether the kubelet said that the Node can never hold the Pod at its new size."""
    pending = (condition.reason for condition in status.conditions or () if condition.type == "PodResizePending")
    return next(pending, None) == "Infeasible"


def _largest(*quantities: Quantities | None) -> Thousandths:
    largest: Thousandths = {}
    for part in quantities:
        _raise(largest, _counted(part or {}))
    return largest


def _add(total: Thousandths, amounts: Thousandths) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount


def _raise(peak: Thousandths, amounts: Thousandths) -> None:
    for name, amount in amounts.items():
        if amount > peak.get(name, -1):
            peak[name] = amount


def _amounts(total: Thousandths) -> Amounts:
    """Thousandths as amounts: cpu as it is, all else in whole units, rounded up."""
    amounts = ((name, amount if name == CPU else -(-amount // 1000)) for name, amount in total.items() if amount)
    return tuple(sorted((name, min(amount, _MOST)) for name, amount in amounts))
