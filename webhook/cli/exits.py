"""Exit codes, and the errors that lead to them."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import click

from webhook.child import COMPILING, virtual_memory

OK = 0  # admitted, or nothing found
REFUSED = 1  # refused, or something found
USAGE = 2  # wrong usage, or input that cannot be read
FAILURE = 3  # the tool or the cluster failed


class InputError(click.ClickException):
    """Input that cannot be read or used."""

    exit_code = USAGE


def unreadable(error: OSError, name: str = "") -> InputError:
    """The error for a file that cannot be read. name: as the user wrote it, where the error may have it otherwise."""
    return InputError(f"{name or error.filename}: cannot be read: {error.strerror}")


@contextmanager
def reading(*errors: type[Exception]) -> Iterator[None]:
    """Raises these errors, and those of files that cannot be read, as InputErrors."""
    try:
        yield
    except errors as error:
        raise InputError(str(error)) from None
    except OSError as error:
        raise unreadable(error) from None


class _OvertimeError(BaseException):
    """The time is over; no Exception, so that nothing absorbs it."""


@contextmanager
def compiling(name: str) -> Iterator[None]:
    """A block of the main thread that may take the processor time and memory in which a source is compiled.

    name: of the source. Raises InputError.
    """

    def end(*_: object) -> None:
        raise _OvertimeError

    memory, before = resource.getrlimit(resource.RLIMIT_AS), signal.signal(signal.SIGVTALRM, end)
    try:
        resource.setrlimit(resource.RLIMIT_AS, (virtual_memory() + COMPILING.memory, memory[1]))
        signal.setitimer(signal.ITIMER_VIRTUAL, COMPILING.seconds, 0.1)  # what a callback absorbs is raised again
        yield
    except _OvertimeError:
        raise InputError(f"{name}: took over {COMPILING.seconds} s to compile") from None
    except MemoryError:
        raise InputError(f"{name}: took over {COMPILING.memory >> 20} MiB of memory to compile") from None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, memory)


@contextmanager
def packages() -> Iterator[None]:
    """Raises an InputError where a package is missing that comes with the extra `server`."""
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name in ("", "certs", "cks_admission", "policies", "webhook"):
            raise
        remedy = "It comes with the extra `server`: pip install 'cks-admission[server]'"
        raise InputError(f"the package {name} is missing. {remedy}") from None


class ToolError(click.ClickException):
    """The tool or the cluster failed."""

    exit_code = FAILURE
