"""Exit codes, and the errors that lead to them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from policies.engine.interruption import PostponedError
from webhook.limits import COMPILING, COSTLY, limited

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


@contextmanager
def bounded(name: str, work: str = "compile") -> Iterator[None]:
    """A block that may take the processor time and memory in which a source is compiled.

    name: of the source or object that it is about. work: what it does with it. Raises InputError.
    """
    try:
        with limited(COMPILING):
            yield
    except PostponedError as error:
        where = f", by policy {error.policy!r}" if error.policy else ""
        where += f", at {error.place}" if error.place else ""
        raise InputError(f"{name}: took over {COMPILING.seconds} s to {work}{where}\n{COSTLY}") from None
    except MemoryError:
        raise InputError(f"{name}: took over {COMPILING.memory >> 20} MiB of memory to {work}\n{COSTLY}") from None


_EXTRAS = {"nicegui": "playground", "starlette": "playground"}


@contextmanager
def packages() -> Iterator[None]:
    """Raises an InputError where a package is missing that comes with an extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name in ("", "certs", "cks_admission", "policies", "webhook"):
            raise
        extra = _EXTRAS.get(name, "server")
        remedy = f"It comes with the extra `{extra}`: pip install 'cks-admission[{extra}]'"
        raise InputError(f"the package {name} is missing. {remedy}") from None


class ToolError(click.ClickException):
    """The tool or the cluster failed."""

    exit_code = FAILURE
