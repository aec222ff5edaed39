"""Checks the processes of the service: their rights, replicas and Leases, and who opens gates."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter
from typing import Final

from policies.engine.request import JsonObject, mapping
from policies.engine.violation import listed
from webhook.configuration import roles
from webhook.configuration.settings import Settings
from webhook.doctor.observation import Check, Diagnosis, PlacerState, Read, Unread, count
from webhook.registration.rights import Right

_RIGHTS: Final = Check("rights")
_REPLICAS: Final = Check("replicas")
_PLACER: Final = Check("placer")

_APP: Final = "app.kubernetes.io/name=cks-admission"
_COMPONENT: Final = "app.kubernetes.io/component="
# How long a Lease may be overdue, because the clocks of machines differ.
_LATE: Final = timedelta(seconds=30)
POLICY: Final = "ValidatingAdmissionPolicy"
BINDING: Final = "ValidatingAdmissionPolicyBinding"


def rights_to_check(needed: Sequence[Right], groups: Read[Collection[str]]) -> Sequence[Right]:
    """The rights, without those in groups that the API server does not serve."""
    if isinstance(groups, Unread):
        return needed
    return [right for right in needed if not right.group or right.group in groups]


def check_rights(answers: Mapping[Right, Read[bool]], user: str, *, own: bool) -> Iterator[Diagnosis]:
    """A diagnosis for each resource with missing rights. user: whose rights. own: whether that is the service."""
    unread = next((answer for answer in answers.values() if isinstance(answer, Unread)), None)
    if unread is not None:
        yield _RIGHTS.unread(user, unread)
    missing = [right for right, answer in answers.items() if answer is False]
    for _, rights in groupby(missing, attrgetter("group", "resource", "name", "namespace", "reason")):
        same_object = list(rights)
        right, verbs = same_object[0], ", ".join(same.verb for same in same_object)
        resource = f"{right.resource}.{right.group}" if right.group else right.resource
        name = f" {right.name}" if right.name else ""
        where = f" in namespace {right.namespace}" if right.namespace else ""
        quoted = right.group or '""'
        names = f", resourceNames: [{right.name}]" if right.name else ""
        rule = f"{{apiGroups: [{quoted}], resources: [{right.resource}], verbs: [{verbs}]{names}}}"
        role = f"a Role in namespace {right.namespace}" if right.namespace else "a ClusterRole"
        account = "" if own else "; or check the service's own account with --as-service-account NAMESPACE/NAME"
        diagnose = _RIGHTS.problem if own and any(same.vital for same in same_object) else _RIGHTS.warn
        text = f"it may not {verbs} {resource}{name}{where}: {right.reason}"
        yield diagnose(user, text, f"grant it with {role}: {rule}{account}")
    if unread is None and not missing:
        hint = "" if own else "; to check the service's own account, use --as-service-account NAMESPACE/NAME"
        yield _RIGHTS.ok(user, f"it has the {count(len(answers), 'right')} that the service needs{hint}")


def selector(service: Read[JsonObject | None], settings: Settings) -> str:
    """The label selector for the Pods and their Deployments: that of the Service, if it exists.

    If manage runs apart, it is that of the settings without the component, so that manage is included.
    """
    if settings.manage.apart:
        parts = settings.manage.pods.split(",")
        return ",".join(part for part in parts if not part.startswith(_COMPONENT)) or _APP
    labels = {} if isinstance(service, Unread) or service is None else mapping(mapping(service, "spec"), "selector")
    return ",".join(f"{key}={value}" for key, value in labels.items()) or _APP


def check_replicas(
    deployments: Read[Sequence[JsonObject]], pods: Read[Sequence[JsonObject]], settings: Settings
) -> Iterator[Diagnosis]:
    """Diagnoses of the Deployments and Pods of the service; none if it runs outside the cluster."""
    namespace = settings.cluster.namespace
    where = f"Deployments in {namespace}"
    if isinstance(deployments, Unread):
        yield _REPLICAS.unread(where, deployments)
    else:
        for deployment in deployments:
            desired = mapping(deployment, "spec").get("replicas", 1)
            ready = mapping(deployment, "status").get("readyReplicas", 0)
            title = f"Deployment {mapping(deployment, 'metadata').get('name')}"
            text = f"{ready} of {count(desired, 'replica')} ready"
            if ready >= desired > 0:
                yield _REPLICAS.ok(title, text)
            else:
                diagnose = _REPLICAS.warn if ready else _REPLICAS.problem
                yield diagnose(title, text, "see kubectl get pods; /readyz and the log of each Pod say why")
        if not deployments and not settings.registration.url:
            remedy = f"check where the service runs: cluster.namespace is {namespace}"
            yield _REPLICAS.warn(where, "none has the labels of the service", remedy)
    where = f"Pods in {namespace}"
    if isinstance(pods, Unread):
        yield _REPLICAS.unread(where, pods)
        return
    running = [pod for pod in pods if mapping(pod, "status").get("phase") not in ("Succeeded", "Failed")]
    containers = [container for pod in running for container in mapping(pod, "spec").get("containers") or ()]
    images = sorted({str(container.get("image")) for container in containers})
    if len(images) > 1:
        remedy = "this is normal during a rollout; if it lasts, see kubectl rollout status"
        yield _REPLICAS.warn(where, f"they run {listed(images)}", remedy)


def check_lease(
    lease: Read[JsonObject | None], pods: Read[Sequence[JsonObject]], settings: Settings, now: datetime
) -> Iterator[Diagnosis]:
    """Diagnoses of the Lease that decides which replica writes, if there is anything to write."""
    chosen = settings.registration
    if not (chosen.writes or settings.manage.apart):
        return
    where = f"Lease {settings.cluster.namespace}/{settings.cluster.lease}"
    nobody = "nobody writes the registration" + (" or renews the certificate" if settings.tls.secret else "")
    who = "manage" if settings.manage.apart else "a replica"
    remedy = f"check that {who} runs and may get, create and update the Lease; see its log"
    if isinstance(lease, Unread):
        yield _REPLICAS.unread(where, lease)
        return
    spec = mapping(lease, "spec")
    holder, renewed = str(spec.get("holderIdentity") or ""), spec.get("renewTime")
    if not holder or not renewed:
        text = "it does not exist" if lease is None else "no process holds it"
        yield _REPLICAS.problem(where, f"{text}: {nobody}", remedy)
        return
    ago = now - datetime.fromisoformat(str(renewed))
    if ago > timedelta(seconds=spec.get("leaseDurationSeconds") or 0) + _LATE:
        text = f"{holder} last renewed it {int(ago.total_seconds())} s ago: {nobody}"
        yield _REPLICAS.problem(where, text, remedy)
    elif not isinstance(pods, Unread) and pods and not any(_is_held_by(holder, pod) for pod in pods):
        text = f"{holder} holds it, which is none of {count(len(pods), 'Pod')} of the service"
        remedy = "stop whatever else uses this Lease, or choose another one with cluster.lease"
        yield _REPLICAS.warn(where, text, remedy)
    else:
        yield _REPLICAS.ok(where, f"{holder} holds and renews it")


def _is_held_by(holder: str, pod: JsonObject) -> bool:
    """Whether a Pod is the holder. Its process adds a suffix to its name."""
    name = str(mapping(pod, "metadata").get("name"))
    return holder == name or (holder.startswith(name) and not holder[len(name)].isalnum() and holder[len(name)] != "-")


def opens_gates(settings: Settings) -> bool:
    """Whether somebody is to open gates."""
    return roles.gates(settings) and (settings.place.apart or roles.places(settings))


def check_placer(settings: Settings, state: PlacerState | None, now: datetime) -> Iterator[Diagnosis]:
    """Diagnoses of the placer. state: None if nothing was to be read."""
    if state is None:
        return
    where = f"Lease {settings.cluster.namespace}/{settings.place.lease}"
    if isinstance(state.absence, Unread):
        yield _PLACER.unread(where, state.absence)
    elif state.absence:
        found, _, remedy = state.absence.partition(": ")
        yield _PLACER.problem(where, found, remedy)
    else:
        yield _PLACER.ok(where, "a placer holds and renews it")
    where, patience = "Pods behind the gate", settings.topology.patience_seconds
    if isinstance(state.gated, Unread):
        yield _PLACER.unread(where, state.gated)
    else:
        late = [
            pod for pod in state.gated if pod.created is not None and (now - pod.created).total_seconds() > patience
        ]
        limit = f"{patience:g} s (topology.patienceSeconds)"
        if late:
            named = listed([f"{pod.namespace}/{pod.name}" for pod in late])
            text = f"{len(late)} of {count(len(state.gated), 'Pod')} older than {limit}: {named}"
            queue = "`cks-admission topology queue --kubeconfig FILE` shows what their gangs wait for, and behind whom"
            yield _PLACER.warn(where, text, queue)
        else:
            yield _PLACER.ok(where, f"{count(len(state.gated), 'Pod')}, none older than {limit}")

    # The policy that limits what the placer's account may change, and its binding.
    remedy = (
        "install the chart again; without it, whoever has the token of the placer's account may change Pods at will"
    )
    for kind, object_ in state.fence.items() if settings.place.apart else ():
        where = f"{kind} {settings.place.lease}"
        if isinstance(object_, Unread):
            yield _PLACER.unread(where, object_)
        elif flaw := _flaw(kind, settings.place.lease, object_):
            yield _PLACER.problem(where, flaw, remedy)
        else:
            yield _PLACER.ok(where, "it is there")


def _flaw(kind: str, name: str, fence: JsonObject | None) -> str:
    spec = mapping(fence, "spec")
    if fence is None:
        return "it does not exist"
    if kind == POLICY:
        return "" if spec.get("failurePolicy", "Fail") == "Fail" else "its failurePolicy is not Fail"
    if spec.get("policyName") != name:
        return f"it binds another policy, {spec.get('policyName')}"
    return "" if "Deny" in (spec.get("validationActions") or ()) else "its validationActions have no Deny"
