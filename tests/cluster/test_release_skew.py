"""Replicas of two versions side by side, of which the later one has one more entry that fails closed.

Writes go on meanwhile. None is refused because a replica does not know the entry's path, and once the entry is
registered none slips through.
"""

from __future__ import annotations

import itertools
import threading
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import pytest

from cluster import load, nextversion
from cluster.apicalls import Caller
from cluster.load import Load
from cluster.polling import NotYet, wait_for
from cluster.release import NAME, Release, events

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.apicalls import Answer
    from cluster.controlplane import ControlPlane

NEXT: dict[str, Any] = {"image": {"tag": "next"}}
_PAUSE_SECONDS = 0.03


class Tiers:
    """Writes that only the later version refuses, one after the other, and what became of each."""

    def __init__(self, control_plane: ControlPlane) -> None:
        """Prepare them."""
        self.verdicts: list[str] = []
        self._caller = Caller(control_plane)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._write, name="tiers")

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Write in this block."""
        self._thread.start()
        try:
            yield
        finally:
            self._ending.set()
            self._thread.join()
            self._caller.__exit__(None, None, None)

    def changes(self) -> list[str]:
        """The verdicts without repetitions."""
        return [verdict for verdict, _ in itertools.groupby(self.verdicts)]

    def _write(self) -> None:
        metadata = {"name": "tiered", "namespace": load.NAMESPACE, "labels": {"tier": "gold"}}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        path = f"/api/v1/namespaces/{load.NAMESPACE}/configmaps?dryRun=All"
        while not self._ending.wait(_PAUSE_SECONDS):
            self.verdicts.append(verdict(self._caller.send("POST", path, body, user="alice")))


def verdict(answer: Answer) -> str:
    """What became of a write: `passed`, `refused` by the rule, or the words of any other failure."""
    if answer.code == HTTPStatus.CREATED:
        return "passed"
    message = str(answer.body.get("message", ""))
    return "refused" if nextversion.REFUSAL in message else message


def registered(installed: Release) -> bool:
    """Whether the API server asks the later version's path."""
    found = installed.control_plane.get("validatingwebhookconfiguration", NAME)
    return any(nextversion.PATH in str(entry["clientConfig"]) for entry in found["webhooks"])


@pytest.fixture(scope="module")
def writing(audited: ControlPlane, installed: Release) -> Iterator[Load]:
    """Writers of all other kinds, which neither version must fail."""
    installed.install()
    installed.wait_until_asked()
    with Load(audited, writers=2) as running:
        yield running


def test_roll_out_and_roll_back(audited: ControlPlane, installed: Release, writing: Load) -> None:
    """The entry comes when all replicas know it, goes before the first is ready that does not, and none is failed."""
    tiers = Tiers(audited)
    with tiers.going_on(), writing.phase("roll-out and roll-back") as phase:
        before = {each.name for each in installed.kubelet.named()}
        installed.install(**NEXT)
        wait_for("the entry", lambda: registered(installed))
        old = {each.name for each in installed.kubelet.named() if each.name in before and each.component == "webhook"}
        wait_for("the first refusal", lambda: tiers.verdicts[-1] == "refused")
        writing.settle(3.0)
        installed.install()
        wait_for("the entry to go", lambda: not registered(installed))
        wait_for("the last refusal", lambda: tiers.verdicts[-1] == "passed")
        writing.settle(3.0)

    assert tiers.changes() == ["passed", "refused", "passed"]
    assert old == set()
    assert (phase.failures, phase.total("unasked")) == ([], 0)


def test_an_older_replica_waits_for_manage(audited: ControlPlane, installed: Release, writing: Load) -> None:
    """Manage of the later version takes the entry away for an older replica, and puts it back when that has gone."""
    tiers = Tiers(audited)
    installed.install(**NEXT)
    wait_for("the entry", lambda: registered(installed))
    with tiers.going_on(), writing.phase("an older replica") as phase:
        wait_for("the first refusal", lambda: bool(tiers.verdicts) and tiers.verdicts[-1] == "refused")
        audited.kubectl(
            "set", "image", f"deployment/{NAME}", "webhook=cks-admission:0.1.0", "-n", NAME, user="admin", check=True
        )
        wait_for("the entry to go", lambda: not registered(installed))
        installed.wait()
        (manager,) = installed.kubelet.ready("manage")
        told = [event["reason"] for event in events(manager, "entries wait for replicas")]
        writing.settle(2.0)
        installed.install(**NEXT)

        def back() -> bool:
            if not registered(installed) or tiers.verdicts[-1] != "refused":
                raise NotYet(f"{tiers.changes()}")
            return True

        wait_for("the entry to be back", back)
    installed.install()
    wait_for("the entry to go", lambda: not registered(installed))

    assert tiers.changes() == ["refused", "passed", "refused"]
    assert (phase.failures, phase.total("unasked")) == ([], 0)
    assert any("fails closed at /validate/tiers" in reason for reason in told)
