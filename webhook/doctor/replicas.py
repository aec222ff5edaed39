"""Checks the replicas: how many are ready, whether they run the same version, and which one writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from policies.engine.request import JsonObject, mapping
from webhook.configuration.settings import Settings
from webhook.doctor.diagnosis import Diagnosis, Read, Unread, count, listed, unseen

CHECK: Final = "replicas"
_APP: Final = "app.kubernetes.io/name=cks-admission"
_COMPONENT: Final = "app.kubernetes.io/component="

# How long a Lease may be overdue, because the clocks of machines differ.
_LATE: Final = timedelta(seconds=30)


def selector(service: Read[JsonObject | None], settings: Settings) -> str:
    """The label selector for the Pods and their Deployments: that of the Service, if it exists.

    If manage runs apart, it is that of the settings without the component, so that manage is included.
    """
    if settings.manage.apart:
        parts = settings.manage.pods.split(",")
        return ",".join(part for part in parts if not part.startswith(_COMPONENT)) or _APP
    labels = {} if isinstance(service, Unread) or service is None else mapping(mapping(service, "spec"), "selector")
    return ",".join(f"{key}={value}" for key, value in labels.items()) or _APP


def check(
    deployments: Read[Sequence[JsonObject]], pods: Read[Sequence[JsonObject]], settings: Settings
) -> Iterator[Diagnosis]:
    """Diagnoses of the Deployments and Pods of the service; none if it runs outside the cluster."""
    where = f"Deployments in {settings.cluster.namespace}"
    if isinstance(deployments, Unread):
        yield unseen(CHECK, where, deployments)
    else:
        yield from (_deployment(deployment) for deployment in deployments)
        if not deployments and not settings.registration.url:
            remedy = f"check where the service runs: cluster.namespace is {settings.cluster.namespace}"
            yield Diagnosis(CHECK, "warning", where, "none has the labels of the service", remedy)
    if isinstance(pods, Unread):
        yield unseen(CHECK, f"Pods in {settings.cluster.namespace}", pods)
        return
    running = [pod for pod in pods if mapping(pod, "status").get("phase") not in ("Succeeded", "Failed")]
    images = sorted(
        {str(container.get("image")) for pod in running for container in mapping(pod, "spec").get("containers") or ()}
    )
    if len(images) > 1:
        remedy = "this is normal during a rollout; if it lasts, see kubectl rollout status"
        yield Diagnosis(CHECK, "warning", f"Pods in {settings.cluster.namespace}", f"they run {listed(images)}", remedy)


def check_lease(
    lease: Read[JsonObject | None], pods: Read[Sequence[JsonObject]], settings: Settings, now: datetime
) -> Iterator[Diagnosis]:
    """Diagnoses of the Lease that decides which replica writes, if there is anything to write."""
    chosen = settings.registration
    if not (chosen.apply or chosen.ca_only or settings.tls.secret or settings.manage.apart):
        return
    where = f"Lease {settings.cluster.namespace}/{settings.cluster.lease}"
    who = "manage" if settings.manage.apart else "a replica"
    nobody = "nobody writes the registration" + (" or renews the certificate" if settings.tls.secret else "")
    remedy = f"check that {who} runs and may get, create and update the Lease; see its log"
    if isinstance(lease, Unread):
        yield unseen(CHECK, where, lease)
        return
    spec = mapping(lease, "spec")
    holder, renewed = str(spec.get("holderIdentity") or ""), spec.get("renewTime")
    if not holder or not renewed:
        text = "it does not exist" if lease is None else "no process holds it"
        yield Diagnosis(CHECK, "problem", where, f"{text}: {nobody}", remedy)
        return
    ago = now - datetime.fromisoformat(str(renewed))
    if ago > timedelta(seconds=spec.get("leaseDurationSeconds") or 0) + _LATE:
        text = f"{holder} last renewed it {int(ago.total_seconds())} s ago: {nobody}"
        yield Diagnosis(CHECK, "problem", where, text, remedy)
    elif not isinstance(pods, Unread) and pods and not any(_is_held_by(holder, pod) for pod in pods):
        text = f"{holder} holds it, which is none of {count(len(pods), 'Pod')} of the service"
        remedy = "stop whatever else uses this Lease, or choose another one with cluster.lease"
        yield Diagnosis(CHECK, "warning", where, text, remedy)
    else:
        yield Diagnosis(CHECK, "ok", where, f"{holder} holds and renews it")


def _deployment(deployment: JsonObject) -> Diagnosis:
    where = f"Deployment {mapping(deployment, 'metadata').get('name')}"
    desired = mapping(deployment, "spec").get("replicas", 1)
    ready = mapping(deployment, "status").get("readyReplicas", 0)
    text = f"{ready} of {count(desired, 'replica')} ready"
    if ready >= desired > 0:
        return Diagnosis(CHECK, "ok", where, text)
    remedy = "see kubectl get pods; /readyz and the log of each Pod say why"
    return Diagnosis(CHECK, "warning" if ready else "problem", where, text, remedy)


def _is_held_by(holder: str, pod: JsonObject) -> bool:
    """Whether a Pod is the holder. Its process adds a suffix to its name."""
    name = str(mapping(pod, "metadata").get("name"))
    return holder == name or (holder.startswith(name) and not holder[len(name)].isalnum() and holder[len(name)] != "-")
