"""The times of the parts of one review, noted while it is answered.

A review does one thing after the other, so each part begins where the one before it ended. Nothing here knows
OpenTelemetry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter, time_ns
from typing import Any, Literal, NamedTuple, get_args

from policies.engine.engine import Answer
from policies.engine.request import AdmissionRequest
from policies.engine.violation import FIELD_LENGTH, shortened

Name = Literal["review", "receive", "decode", "match", "rule", "rules", "look-up", "child", "encode"]
NAMES: tuple[Name, ...] = get_args(Name)
"""The names of all spans; docs/reference/telemetry.md lists them."""

PREFIX = "cks_admission."
ATTRIBUTES = frozenset(
    PREFIX + name
    for name in (
        "uid", "operation", "resource", "namespace", "name", "dry_run", "allowed", "verdicts", "rule", "rules", "key",
        "found", "operations", "bytes",
    )
)  # fmt: skip
"""The attributes of spans that are the service's own; the same page lists them."""

Value = str | bool | int | tuple[str, ...]
_NANO = 1_000_000_000


class Span(NamedTuple):
    """A part of a review. began, ended: of the performance counter, which all processes of a machine share."""

    name: Name
    began: float
    ended: float
    attributes: Mapping[str, Value]


class Trace:
    """The parts of a review so far. parent: whose part the review is, as OpenTelemetry has it; None if it is no part.

    slow: seconds from which a rule has a span. attributes: those of the whole review. status: of the HTTP answer.
    """

    __slots__ = ("_epoch", "_since", "attributes", "began", "ended", "parent", "slow", "spans", "status")

    def __init__(self, parent: Any, slow: float) -> None:
        self.parent = parent
        self.slow = slow
        self.status = 0
        self.spans: list[Span] = []
        self.attributes: dict[str, Value] = {}
        self.began = self.ended = self._since = perf_counter()
        self._epoch = time_ns() - int(self.began * _NANO)

    def begin(self) -> None:
        """Begin the next part now. What passed since the last one belongs to none."""
        self._since = perf_counter()

    def part(self, name: Name, **attributes: Value) -> None:
        """End a part, and begin the next one."""
        now = perf_counter()
        self.spans.append(Span(name, self._since, now, {PREFIX + key: value for key, value in attributes.items()}))
        self._since = now

    def rules(self, also: Callable[[str | Sequence[str]], None]) -> Callable[[str | Sequence[str]], None]:
        """What to call with the name of a rule after its evaluation. also: called with it, too."""

        def after_rule(rule: str | Sequence[str]) -> None:
            also(rule)
            if perf_counter() - self._since < self.slow:
                self.begin()
            elif isinstance(rule, str):
                self.part("rule", rule=rule)
            else:
                self.part("rules", rules=len(rule))

        return after_rule

    def conclude(self, request: AdmissionRequest, answer: Answer) -> None:
        """Note what was asked and answered: identities and verdicts, nothing of the object's content."""
        parts = (request.resource.group, request.resource.resource, request.sub_resource)
        said: dict[str, Value] = {
            "uid": request.uid,
            "operation": request.operation,
            "resource": "/".join(part for part in parts if part),
            "namespace": request.namespace,
            "name": shortened(request.display_name, FIELD_LENGTH),
            "dry_run": bool(request.dry_run),
            "allowed": answer.allowed,
        }
        if answer.unanimity is None:
            said["verdicts"] = tuple(f"{d.rule}: {d.verdict}" for d in answer.decisions if d.verdict != "admit")
        self.attributes |= {PREFIX + key: value for key, value in said.items() if value != ""}

    def end(self, path: str, status: int) -> None:
        """End the review with an HTTP status. path: at which it was asked; empty if that is not served."""
        self.ended, self.status = perf_counter(), status
        self.attributes |= {"http.request.method": "POST", "http.response.status_code": status}
        if path:
            self.attributes["http.route"] = path

    def nanoseconds(self, moment: float) -> int:
        """The Unix time of a moment of the performance counter."""
        return self._epoch + int(moment * _NANO)
