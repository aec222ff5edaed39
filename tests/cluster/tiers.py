"""Writes that only a later version refuses, while replicas of two versions serve side by side."""

from __future__ import annotations

import itertools
import threading
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from cluster import load, nextversion
from cluster.apicalls import Caller
from cluster.release import NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.apicalls import Answer
    from cluster.controlplane import ControlPlane
    from cluster.release import Release

NEXT: dict[str, Any] = {"image": {"tag": "next"}}
"""The chart's values for the later version."""

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
