"""Structured logs on stderr: JSON lines, or aligned text on a terminal. They never contain parts of objects.

A request is logged by its identity: uid, user, operation, resource, namespace, name, and the rules with their paths
and exceptions. Admitted requests are logged at debug level only; a refusal or a warning at info.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any, TextIO, cast

import msgspec
import structlog

from policies.engine.engine import Answer
from policies.engine.request import AdmissionRequest
from policies.engine.rule import Phase
from policies.engine.violation import FIELD_LENGTH, shortened
from webhook.configuration.fields import LogFormat, LogLevel
from webhook.seldom import Seldom
from webhook.sink import Sink

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


def _json(_logger: Any, _method: str, event: structlog.typing.EventDict) -> str:
    first = {key: event.pop(key) for key in ("timestamp", "level", "event")}
    ordered = {**first, **event}
    try:
        return msgspec.json.encode(ordered, enc_hook=str).decode("utf-8")
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
