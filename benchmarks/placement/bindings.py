"""Which Pods have found a Node, as the API server tells it, with the time at which it was heard."""

from __future__ import annotations

import threading
import time
from http.client import HTTPException
from types import TracebackType
from typing import NamedTuple, Self

from cluster.apicalls import Caller
from cluster.controlplane import ControlPlane


class Binding(NamedTuple):
    """A Pod that found a Node. gang: the Job that it is of. at: by the monotonic clock."""

    gang: str
    pod: str
    node: str
    at: float


class Bindings:
    """Watches the Pods of a Namespace in a thread of its own, while the block lasts."""

    def __init__(self, cluster: ControlPlane, namespace: str) -> None:
        self._path = f"/api/v1/namespaces/{namespace}/pods?watch=1&timeoutSeconds=30"
        self._caller = Caller(cluster)
        self._bound: dict[str, Binding] = {}
        self._fresh: list[Binding] = []
        self._lock = threading.Lock()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="bindings", daemon=True)

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Take no more of them; the thread ends with its watch."""
        self._stopping = True

    def take(self) -> list[Binding]:
        """The bindings that were heard of since the last call."""
        with self._lock:
            taken, self._fresh = self._fresh, []
        return taken

    def _run(self) -> None:
        while not self._stopping:
            try:
                for event in self._caller.events(self._path):
                    self._hear(event["object"])
            except (OSError, HTTPException):  # the next watch begins with all Pods that there are
                time.sleep(0.2)

    def _hear(self, pod: dict[str, dict[str, object]]) -> None:
        uid, node = str(pod["metadata"].get("uid")), pod.get("spec", {}).get("nodeName")
        if not node or uid in self._bound:
            return
        labels = pod["metadata"]["labels"]
        assert isinstance(labels, dict)
        binding = Binding(labels["app"], str(pod["metadata"]["name"]), str(node), time.monotonic())
        with self._lock:
            self._bound[uid] = binding
            self._fresh.append(binding)
