"""Faults of a whole release: the chart, installed in a control plane, with writes by people that go on."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from cluster import load, manifests, tiers
from cluster.apicalls import Caller
from cluster.load import Load, Phase
from cluster.polling import wait_for
from cluster.release import NAMESPACE, Release

from faults import documents
from faults.site import Site
from faults.table import Result
from webhook.configuration.settings import Registration

_TWO: dict[str, Any] = {"replicas": 2}
# The API server's time-outs as the chart has them by default; tests of releases have longer ones.
_DEFAULTS = {
    name: Registration.model_fields[field].default
    for name, field in (
        ("timeoutSeconds", "timeout_seconds"),
        ("openTimeoutSeconds", "open_timeout_seconds"),
        ("essentialTimeoutSeconds", "essential_timeout_seconds"),
    )
}
_LIVENESS_SECONDS = 35.0  # the third probe fails 30 s after the first, and waits for 5 s
_NODE = "cold-1"
_NEVER = documents.text(
    documents.policy("never", "false", "Never.", failurePolicy="Fail", matchConstraints={"resourceRules": [
        {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]},
    ]})
)  # fmt: skip


def stopped_replica(site: Site) -> Result:
    """One of two replicas is stopped (SIGSTOP), and gets half of the connections until its liveness probe kills it.

    Nothing gets past the guard or a policy; writes that meet it fail in time, and after the probe all is well.
    """
    with _released(site) as release, Load(site.vacant) as writing:
        victim = release.kubelet.ready()[0]
        with writing.phase("SIGSTOP") as phase:
            writing.settle(2)
            stopped = time.monotonic()
            os.kill(victim.process.pid, signal.SIGSTOP)
            writing.settle(_LIVENESS_SECONDS)
            victim.process.kill()  # as a kubelet does when the probe has failed three times
            killed = time.monotonic()
            release.wait()
            writing.settle(3)
    refused = {write.name for write in load.WRITES if write.refusal}
    past = [text for text in phase.failures if text.partition(":")[0] in refused]  # although it had to be refused
    return Result(
        seen=f"a write took {phase.slowest:.1f} s at most; those that met it were told “failed calling webhook”",
        lost=_lost(phase),
        healthy=max(0.0, phase.trouble - stopped),
        promises={
            "nothing gets past": not past,
            "no write waits longer than two time-outs": phase.slowest < 2 * _DEFAULTS["timeoutSeconds"] + 1,
            "well after the probe": phase.trouble < killed + 5,
        },
    )


def cold_start(site: Site) -> Result:
    """A policy refuses everything and fails closed, every replica is dead, and the API server restarts.

    A new Node joins, the Pods of the service are made, placed and started, and the policy judges again.
    """
    control_plane = site.vacant
    release = Release(control_plane, **_TWO)
    with release:
        release.install(policies={"load.yaml": load.POLICIES})
        release.wait_until_asked()
        release.install(policies={"never.yaml": _NEVER}, config={"safety": {"users": ["kwok"]}})
        wait_for("the policy", lambda: "Never." in release.refusal({}))
    force = ("--all", "-n", NAMESPACE, "--force", "--grace-period=0")
    control_plane.kubectl("delete", "pods", *force, user="admin", check=True)
    control_plane.restart_api_server()
    refused = release.refusal({})
    with Caller(control_plane) as caller:
        groups = ["system:nodes", "system:authenticated"]
        joined = caller.send("POST", "/api/v1/nodes", manifests.node(_NODE), user=f"system:node:{_NODE}", groups=groups)
    began = time.monotonic()
    with release:
        release.wait()
        ready = time.monotonic() - began
        wait_for("the policy", lambda: "Never." in release.refusal({}))
        healthy = time.monotonic() - began
        release.install(policies={"load.yaml": load.POLICIES})  # the other one refuses that its release is removed
        wait_for("the policy to go", lambda: not release.refusal({}))
        release.uninstall()
    return Result(
        seen=f"while nothing ran, a ConfigMap of a user was refused ({refused.partition(':')[0]}) and a Node joined "
        f"(HTTP {joined.code}); all replicas were ready after {ready:.0f} s",
        lost="ordinary writes until a replica is ready, as the policy fails closed",
        healthy=healthy,
        promises={
            "a Node joins": joined.code == HTTPStatus.CREATED,
            "the policy fails closed meanwhile": "failed calling webhook" in refused,
        },
    )


def version_skew(site: Site) -> Result:
    """A roll-out to a version with one more entry that fails closed, and the roll-back, under writes.

    No write is refused for want of the entry's path, and once the entry is in force none slips through.
    """
    control_plane = site.vacant
    with _released(site) as release, Load(control_plane) as writing:
        asked = tiers.Tiers(control_plane)
        with asked.going_on(), writing.phase("roll-out and roll-back") as phase:
            began = time.monotonic()
            release.install(**tiers.NEXT)
            wait_for("the entry", lambda: tiers.registered(release))
            wait_for("the first refusal", lambda: asked.verdicts[-1] == "refused")
            out = time.monotonic() - began
            writing.settle(3)
            release.install(image={"tag": ""})
            wait_for("the entry to go", lambda: not tiers.registered(release))
            wait_for("the last refusal", lambda: asked.verdicts[-1] == "passed")
            writing.settle(3)
    return Result(
        seen=f"the entry was in force {out:.0f} s after the roll-out began; what it refuses was in turn: "
        f"{', '.join(asked.changes())}; other writes took {phase.slowest:.1f} s at most",
        lost=_lost(phase),
        healthy=0.0 if not phase.trouble else phase.trouble - began,
        promises={
            "refused while registered, and never otherwise": asked.changes() == ["passed", "refused", "passed"],
            "no other write failed": not phase.failures and not phase.total("unasked"),
        },
    )


@contextmanager
def _released(site: Site) -> Iterator[Release]:
    """A release of two replicas with the policy of `load`, once the API server asks it."""
    with Release(site.vacant) as release, release.released(**_TWO, config={"registration": dict(_DEFAULTS)}):
        yield release


def _lost(phase: Phase) -> str:
    """What became of the writes, for the table."""
    failed, unasked = phase.total("failed"), phase.total("unasked")
    lost = f"{failed} good writes failed, and {unasked} bad ones were refused without being asked about, of"
    return f"{lost if failed or unasked else 'nothing of'} {sum(phase.counts.values()):,} writes"
