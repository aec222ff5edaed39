"""For how long a promise holds.

A promise is kept while Pods of its gang may be on their way, and not for ever: Pods that cannot start would hold a
domain back from everybody else. So it ends some time after the last sign that Pods are coming: the creation of the
workload, its resume, or the creation of its latest Pod; much sooner for Pods that nobody has created. Pods that are
replaced are promised their room in the same way. Only a gang of which some Pods have their Nodes already keeps its
promise to those that wait: these Pods can start, and go on with the others alone.

Where each Pod waits until the one before it is ready (a StatefulSet, the workers of a LeaderWorkerSet that wait for
their leader), that one's start is such a sign for as long as it takes, within reason, and so is the moment when it is
ready.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from policies.engine.request import JsonObject, is_being_deleted, mapping

SPAN = 600.0
"""Seconds for which a promise holds after the last sign. Controllers create Pods, and schedulers bind them, within
seconds; the rest is for images of init containers, quotas and slow webhooks."""

UNBORN = 60.0
"""The same for Pods that do not exist. A controller that may create Pods does so within seconds; one that a quota stops
never does, and its workload would hold back room that it can never take."""

SLOWEST_START = 3600.0
"""Seconds that a Pod may take to become ready while others wait for it: large models load for half an hour."""

LONGEST = SLOWEST_START + SPAN
"""Seconds for which a promise may still hold; the clock of the API server may be ahead by SPAN."""

_FINAL = frozenset({"Complete", "Completed", "Succeeded", "Failed", "SuccessCriteriaMet", "FailureTarget"})
_PHASES = frozenset({"Completed", "Terminated", "Aborted", "Failed", "Complete", "SUCCEEDED", "FAILED", "STOPPED"})


class Life(Struct, frozen=True):
    """A workload in time. start: when its Pods were first due, or due again, in seconds since the epoch.

    ordered: whether its Pods wait for each other.
    """

    start: float
    ordered: bool = False


class Sign(Struct, frozen=True):
    """A Pod in time: when it was created, and when it became ready, 0 if it is not. bound: whether it has a Node."""

    created: float
    ready: float = 0.0
    bound: bool = False


def life(obj: JsonObject) -> Life | None:
    """The life of a workload; None for one that gets no more Pods: it has finished, is suspended or being deleted."""
    spec, status = mapping(obj, "spec"), mapping(obj, "status")
    suspended = spec.get("suspend") is True or mapping(spec, "runPolicy").get("suspend") is True
    if suspended or is_being_deleted(obj) or _is_finished(status):
        return None
    return Life(_start(obj), _is_ordered(spec))


def end(life: Life, signs: Iterable[Sign], span: float = SPAN) -> float:
    """When a promise to the Pods of a workload ends, in seconds since the epoch. signs: its Pods so far."""
    ends = [life.start + span]
    for sign in signs:
        ends.append(sign.created + span)
        if life.ordered and sign.bound:
            ends.append(sign.ready + span if sign.ready else sign.created + max(span, SLOWEST_START))
    return max(ends)


def seconds(timestamp: Any) -> float:
    """The time that the API server writes, in seconds since the epoch; 0 if there is none."""
    try:
        return datetime.fromisoformat(timestamp).replace(tzinfo=UTC).timestamp()
    except (TypeError, ValueError, OverflowError):
        return 0.0


def conditions(obj: JsonObject) -> dict[str, JsonObject]:
    """The conditions in an object's status by type."""
    written = mapping(obj, "status").get("conditions")
    listed = written if isinstance(written, list) else []
    return {str(condition.get("type")): condition for condition in listed if isinstance(condition, dict)}


def _start(obj: JsonObject) -> float:
    """The creation, or the last resume: a Job's startTime, and its condition Suspended, are then set anew."""
    resumed = conditions(obj).get("Suspended", {})
    return max(
        seconds(mapping(obj, "metadata").get("creationTimestamp")),
        seconds(mapping(obj, "status").get("startTime")),
        seconds(resumed.get("lastTransitionTime")) if resumed.get("status") == "False" else 0.0,
    )


def _is_finished(status: JsonObject) -> bool:
    """Whether a Job of any kind has ended: by its conditions, or the phase that Volcano and KubeRay write."""
    ended = {name for name, condition in conditions({"status": status}).items() if condition.get("status") == "True"}
    phases = (mapping(status, "state").get("phase"), status.get("jobStatus"), status.get("jobDeploymentStatus"))
    return not _FINAL.isdisjoint(ended) or any(isinstance(phase, str) and phase in _PHASES for phase in phases)


def _is_ordered(spec: JsonObject) -> bool:
    """Whether Pods wait for each other: StatefulSets by default, others if they say so."""
    one_by_one = spec.get("podManagementPolicy") == "OrderedReady"
    in_order = mapping(spec, "startupPolicy").get("startupPolicyOrder") == "InOrder"
    jobs = spec.get("replicatedJobs")
    depends = any(isinstance(job, dict) and job.get("dependsOn") for job in jobs) if isinstance(jobs, list) else False
    return one_by_one or spec.get("startupPolicy") == "LeaderReady" or in_order or depends
