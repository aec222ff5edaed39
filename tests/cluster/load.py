"""A steady stream of writes with their expected answers, counted by the phase in which they were sent."""

from __future__ import annotations

import http.client
import itertools
import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self

from cluster.apicalls import Answer, Caller
from cluster.polling import NotYet, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from cluster.controlplane import ControlPlane

Verdict = Literal["passed", "refused", "unasked", "failed"]
"""unasked: refused since the service could not be asked, where that is the failure policy."""

NAMESPACE = "load"
POLICY = "load-size"
"""A policy that fails closed and is asked about every ConfigMap with the label `size`."""
POLICIES = f"""
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: {POLICY}}}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - {{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}}
  matchConditions:
  - {{name: sized, expression: "has(object.metadata.labels) && 'size' in object.metadata.labels"}}
  validations:
  - expression: "object.metadata.labels['size'] != 'huge'"
    message: Huge ones are not wanted.
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: {POLICY}}}
spec: {{policyName: {POLICY}, validationActions: [Deny]}}
"""

_USER = "alice"
_APPLY = "application/apply-patch+yaml"
# Some 45 writes per second of four writers: whatever lasts for a tenth of a second meets one of each kind.
_PAUSE_SECONDS = 0.08


@dataclass(frozen=True)
class Write:
    """A kind of write. refusal: the words of the refusal that it has to get, empty for none."""

    name: str
    labels: Mapping[str, str]
    refusal: str = ""

    def judge(self, answer: Answer) -> Verdict:
        """Say what became of it: `failed` is what should have gone otherwise."""
        message = str(answer.body.get("message", ""))
        if not self.refusal:
            return "passed" if answer.code in (http.client.OK, http.client.CREATED) else "failed"
        if answer.code < http.client.BAD_REQUEST:
            return "failed"
        if self.refusal in message:
            return "refused"
        return "unasked" if "failed calling webhook" in message else "failed"


WRITES = (
    Write("plain", {}),
    Write("sized", {"size": "small"}),
    Write("reserved", {"foo.coreweave.cloud/bar": "true"}, "are not allowed"),
    Write("huge", {"size": "huge"}, "Huge ones are not wanted."),
)


@dataclass
class Phase:
    """What became of the writes that were begun while something went on."""

    name: str
    counts: Counter[tuple[str, Verdict]] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    unanswered: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    """The longest time that a write took, in seconds."""
    trouble: float = 0.0
    """When the last write ended that failed, or of which nobody was asked, by the monotonic clock."""

    def total(self, verdict: Verdict) -> int:
        """How many writes had this verdict."""
        return sum(count for (_, found), count in self.counts.items() if found == verdict)

    def __str__(self) -> str:
        verdicts: tuple[Verdict, ...] = ("passed", "refused", "unasked", "failed")
        found = {verdict: self.total(verdict) for verdict in verdicts}
        sent = sum(found.values())
        parts = ", ".join(f"{verdict} {count}" for verdict, count in found.items())
        return f"{self.name}: sent {sent} in {self.seconds:.1f} s, {parts}"


class Load:
    """Some writers, each with objects of its own, who write during phases."""

    def __init__(
        self,
        control_plane: ControlPlane,
        writes: Sequence[Write] = WRITES,
        writers: int = 4,
        caller: Callable[[ControlPlane], Caller] = Caller,
    ) -> None:
        """Prepare them; the Namespace has to be there. caller: makes the connection of a writer."""
        self.writers = writers
        self._writes = tuple(writes)
        self._kinds = {write.name for write in writes}
        self.phases: list[Phase] = []
        self._phase = Phase("none")
        self._lock = threading.Lock()
        self._going_on = threading.Event()
        self._stopping = threading.Event()
        self._callers = [caller(control_plane) for _ in range(writers)]
        self._threads = [
            threading.Thread(target=self._write, args=(number, caller), name=f"writer {number}")
            for number, caller in enumerate(self._callers)
        ]
        self._broken: list[BaseException] = []

    def __enter__(self) -> Self:
        """Begin."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End them. Raises what made a writer fail."""
        self._stopping.set()
        self._going_on.set()
        for thread in self._threads:
            thread.join()
        for caller in self._callers:
            caller.__exit__(None, None, None)
        if self._broken:
            raise self._broken[0]

    @contextmanager
    def phase(self, name: str) -> Iterator[Phase]:
        """Count the writes begun in this block by themselves: of each kind one at least, and all have been answered."""
        phase = Phase(name)
        with self._lock:
            self._phase = phase
        self.phases.append(phase)
        self._going_on.set()
        began = time.monotonic()
        try:
            yield phase
            self._await(f"writes of all kinds during {name}", lambda: {kind for kind, _ in phase.counts} == self._kinds)
        finally:
            self._going_on.clear()
            with self._lock:
                self._phase = Phase("none")  # of writes that are just being begun
            phase.seconds = time.monotonic() - began
        self._await(f"the last answers of {name}", lambda: not phase.unanswered)

    def settle(self, seconds: float) -> None:
        """Let them write for a while."""
        if self._stopping.wait(seconds) or self._broken:
            raise self._broken[0]

    def _await(self, description: str, reached: Callable[[], bool]) -> None:
        def looked() -> bool:
            if self._broken:
                raise self._broken[0]
            with self._lock:
                if not reached():
                    raise NotYet(str(self.phases[-1]))
            return True

        wait_for(description, looked)

    def _write(self, number: int, caller: Caller) -> None:
        try:
            for count in itertools.count():
                self._going_on.wait()
                if self._stopping.wait(_PAUSE_SECONDS):
                    return
                self._one(self._writes[count % len(self._writes)], caller, f"load-{number}", count)
        except BaseException as error:  # noqa: BLE001 - raised again where the block ends
            self._broken.append(error)

    def _one(self, write: Write, caller: Caller, owner: str, count: int) -> None:
        name = f"{owner}-{write.name}"
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": dict(write.labels)},
            "data": {"count": str(count)},
        }
        path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{name}?fieldManager={owner}&force=true"
        with self._lock:
            phase = self._phase
            phase.unanswered += 1
        began = time.monotonic()
        answer = caller.send("PATCH", path, body, content_type=_APPLY, user=_USER)
        verdict = write.judge(answer)
        with self._lock:
            phase.unanswered -= 1
            phase.counts[write.name, verdict] += 1
            phase.slowest = max(phase.slowest, time.monotonic() - began)
            if verdict in ("failed", "unasked"):
                phase.trouble = time.monotonic()
            if verdict == "failed":
                phase.failures.append(f"{write.name}: {answer.code} {answer.body.get('message', '')}")
