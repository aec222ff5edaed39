"""Waits for a condition, with a time limit and an error that says which condition was not met."""

from __future__ import annotations

import http.client
import ssl
import time
import urllib.request
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

T = TypeVar("T")

PATIENCE = 120.0
"""Seconds for what usually takes one or two: a busy machine may be many times slower, and stop for a while."""

_PAUSE_SECONDS = 0.1
_ANSWER_SECONDS = 5.0


class NotYet(Exception):  # noqa: N818 - no error: a probe says with it what it still misses
    """Raised by a probe: it is not so yet, and the text says what was seen instead."""


class GaveUpError(AssertionError):
    """What was waited for did not happen in time; an AssertionError, so that a test that waits fails by it."""


def wait_for(description: str, probe: Callable[[], T], timeout: float = PATIENCE) -> T:
    """Call `probe` until it returns something true, and return that.

    A probe that raises NotYet or returns something false is asked again. Raises GaveUpError, with the description and
    what the probe saw last, after `timeout` seconds; any other exception of the probe ends the wait at once.
    """
    deadline = time.monotonic() + timeout
    while True:
        began = time.monotonic()
        try:
            value = probe()
            seen = repr(value)
        except NotYet as reason:
            value, seen = None, str(reason)
        if value:
            return value
        ended = time.monotonic()
        if ended >= deadline:
            raise GaveUpError(f"waited {timeout:g} s for {description}; seen last: {seen}")
        # A probe that runs a command leaves at least half of the time to what is waited for.
        time.sleep(max(_PAUSE_SECONDS, ended - began))


def wait_until(description: str, look: Callable[[], T], wanted: Callable[[T], object], timeout: float = PATIENCE) -> T:
    """Call `look` until what it returns is wanted, and return that. Raises GaveUpError, with what was seen last."""

    def probe() -> tuple[T]:
        found = look()
        if not wanted(found):
            raise NotYet(f"{found}")
        return (found,)

    return wait_for(description, probe, timeout)[0]


def answers(url: str, ca_file: Path) -> bool:
    """Tell whether a URL answers 200, without any proxy. Raises NotYet with what it does instead."""
    context = ssl.create_default_context(cafile=ca_file)
    handlers = (urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        with urllib.request.build_opener(*handlers).open(url, timeout=_ANSWER_SECONDS) as answer:
            return bool(answer.status == http.HTTPStatus.OK)
    except (OSError, http.client.HTTPException) as error:  # any other status is an HTTPError, which is an OSError
        raise NotYet(str(error)) from error
