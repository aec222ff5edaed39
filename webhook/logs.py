"""Structured logs on stderr, as JSON lines or aligned text: never waiting, never failing, never with parts of objects.

A request is logged by its identity: uid, user, operation, resource, namespace, name, and the rules with their paths
and exceptions. Admitted requests are logged at debug level only; a refusal or a warning at info.
"""

from __future__ import annotations

import json
import logging
import os
import select
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TextIO, cast

import msgspec
import structlog

from policies.engine.engine import Answer
from policies.engine.request import AdmissionRequest
from policies.engine.rule import Phase
from policies.engine.violation import FIELD_LENGTH, printable, prose, shortened
from webhook.configuration.rulesettings import LogFormat, LogLevel

INTERVAL = 60.0


class Seldom:
    """Logs each kind of event at most once in an interval, with `times`, how often it has happened since the last line.

    A kind is the event's name with a variant of it.
    """

    def __init__(
        self, log: structlog.typing.FilteringBoundLogger, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._log = log
        self._monotonic = monotonic
        self._last: dict[tuple[str, object], float] = {}
        self._times: Counter[tuple[str, object]] = Counter()

    def info(self, event: str, variant: object = None, **fields: Any) -> None:
        """Log an event, unless it was logged a short time ago."""
        if times := self._due(event, variant):
            self._log.info(event, **fields, times=times)

    def warning(self, event: str, variant: object = None, **fields: Any) -> None:
        """Log an event as a warning, unless it was logged a short time ago."""
        if times := self._due(event, variant):
            self._log.warning(event, **fields, times=times)

    def _due(self, event: str, variant: object) -> int:
        """How often it has happened since the last line, if there may be one now; else 0."""
        kind, now = (event, variant), self._monotonic()
        self._times[kind] += 1
        if now - self._last.get(kind, float("-inf")) < INTERVAL:
            return 0
        self._last = {known: at for known, at in self._last.items() if now - at < INTERVAL} | {kind: now}
        return self._times.pop(kind)


# A pipe that can be written to has room for so many bytes (pipe(7)).
_PIECE = select.PIPE_BUF
_NEWLINE = ord("\n")


class Sink:
    """Writes lines to a descriptor; one that cannot be written now is left out, and the next one says how many were.

    A full disk or a container runtime that does not read must not keep reviews from being answered.

    tell: makes the line that says how many were left out.
    """

    def __init__(self, descriptor: int, tell: Callable[[int], str]) -> None:
        self._descriptor = descriptor
        self._tell = tell
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)
        self._lost = 0
        self._uncounted = 0
        self._torn = False

    def write(self, text: str) -> None:
        """Write whole lines, or count those of them as lost that could not be written."""
        lines = text.encode(errors="backslashreplace")
        if self._lost and not self._remainder(f"{self._tell(self._lost)}\n".encode()):
            self._lost = 0
        lost = (lines if self._lost else self._remainder(lines)).count(b"\n")
        self._lost += lost
        self._uncounted += lost

    def take_lost(self) -> int:
        """How many lines were lost since this was last called."""
        lost, self._uncounted = self._uncounted, 0
        return lost

    def flush(self) -> None:
        """Do nothing: nothing is kept back."""

    def _remainder(self, lines: bytes) -> bytes:
        """Write lines, and return what could not be written. A line that was torn before is ended first."""
        whole = b"\n" + lines if self._torn else lines
        written = 0
        with suppress(OSError):
            while written < len(whole) and self._poll.poll(0) == [(self._descriptor, select.POLLOUT)]:
                written += os.write(self._descriptor, whole[written : written + _PIECE])
        if not written:
            return lines
        self._torn = whole[written - 1] != _NEWLINE
        return whole[written:]


_NOTABLE = frozenset({"deny", "warn", "excepted"})


def configure(level: LogLevel, form: LogFormat, stream: TextIO = sys.stderr) -> Sink:
    """Set up the process's logs, and return where they go. `auto` is text on a terminal, JSON elsewhere."""
    as_text = form == "text" or (form == "auto" and stream.isatty())
    renderer: Any = structlog.dev.ConsoleRenderer(colors=stream.isatty()) if as_text else _json
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)

    def tell(lost: int) -> str:
        line = stamp(None, "warning", {"level": "warning", "event": "log lines lost", "lines": lost})
        return str(renderer(None, "warning", line))

    sink = Sink(stream.fileno(), tell)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            stamp,
            structlog.processors.format_exc_info,
            *([_worded] if as_text else []),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=cast("TextIO", sink)),
        cache_logger_on_first_use=True,
    )
    # Libraries log through the standard library. Only their warnings and errors are of interest.
    logging.basicConfig(handlers=[_Forward()], level=logging.WARNING, force=True)
    return sink


class _Forward(logging.Handler):
    """Forwards the standard library's records to structlog, so that all logs have one format."""

    def emit(self, record: logging.LogRecord) -> None:
        structlog.get_logger().log(record.levelno, record.getMessage(), logger=record.name, exc_info=record.exc_info)


def _worded(_logger: Any, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """The event with words that stay below their line. The renderer itself escapes the values of fields."""
    return {**event, **{key: prose(str(event[key])) for key in ("event", "exception") if key in event}}


def _json(_logger: Any, _method: str, event: structlog.typing.EventDict) -> str:
    first = {key: event.pop(key) for key in ("timestamp", "level", "event")}
    ordered = {**first, **event}
    try:
        return printable(msgspec.json.encode(ordered, enc_hook=str).decode("utf-8"))
    except UnicodeEncodeError:  # an unpaired surrogate, possible in a header
        return json.dumps(ordered, default=str)


def log_skips(seldom: Seldom, request: AdmissionRequest, answer: Answer) -> None:
    """Log the rules that could not be evaluated and let the request pass, each at most once a minute."""
    if answer.unanimity is not None:
        return
    for decision in answer.decisions:
        if decision.failure is not None and not decision.denies:
            # What an expression failed with may quote the object; the expression itself does not.
            error = repr(decision.failure.error).partition(" resulted in error")[0]
            resource = "/".join(part for part in (request.resource.group, request.resource.resource) if part)
            seldom.warning(
                "rule skipped", decision.rule, rule=decision.rule, error=error, uid=request.uid, resource=resource
            )


def log_answer(
    log: structlog.typing.FilteringBoundLogger, phase: Phase, request: AdmissionRequest, answer: Answer
) -> None:
    """Log one line for a review: the request, its user, and the decision of each rule."""
    write = log.debug
    for decision in () if answer.unanimity is not None else answer.decisions:
        if decision.verdict in _NOTABLE or (decision.failure is not None and decision.denies):
            write = log.info
            break
    else:
        if not log.is_enabled_for(logging.DEBUG):
            return  # nearly every review ends here; the rest costs more than the rules
    write(
        "review",
        phase=phase,
        uid=request.uid,
        user=request.user_info.username,
        operation=request.operation,
        resource="/".join(
            part for part in (request.resource.group, request.resource.resource, request.sub_resource) if part
        ),
        namespace=request.namespace,
        name=shortened(request.display_name, FIELD_LENGTH),
        dry_run=bool(request.dry_run),
        allowed=answer.allowed,
        decisions={
            decision.rule: [decision.verdict, *dict.fromkeys(violation.path for violation in decision.violations)]
            for decision in answer.decisions
        },
        exceptions={
            decision.rule: decision.exception.name
            for decision in answer.decisions
            if decision.verdict == "excepted" and decision.exception is not None
        },
        errors=[
            shortened(repr(decision.failure.error), FIELD_LENGTH)
            for decision in answer.decisions
            if decision.failure is not None
        ],
    )
