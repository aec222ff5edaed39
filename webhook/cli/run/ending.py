"""How a run of the command ends: whatever happens, words for people, an exit code, and JSON for who asked for it."""

from __future__ import annotations

import errno
import json
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from signal import SIGINT, SIGPIPE
from typing import Any, NoReturn

import click

from webhook.cli import exits
from webhook.cli.output import to_yaml

_LACKS = re.compile("unexpected extra argument|Missing option '-f'")
_FRAMES = 5
_SIGNALLED = 128
"""Shells add it to the number of the signal that ends a program."""


class UnwrittenError(Exception):
    """An error of the system that no verb expects, most likely of its output. click would end with 1 for it."""

    def __init__(self, reason: OSError) -> None:
        super().__init__(str(reason))
        self.reason = reason


@contextmanager
def marked() -> Iterator[None]:
    """Raises OSErrors as UnwrittenErrors."""
    try:
        yield
    except OSError as error:
        raise UnwrittenError(error) from error


def run(command: Callable[[], Any], arguments: Sequence[str] | None) -> NoReturn:
    """Run a command and end the process with the right code. arguments: those of the process if None."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        code = command()
        sys.stdout.flush()
        sys.exit(code if isinstance(code, int) else exits.OK)
    except SystemExit:
        _flush()
        raise
    except click.ClickException as error:
        _refuse(error, given)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(_SIGNALLED + SIGINT)
    except UnwrittenError as error:
        _unwritten(error.reason)
    except OSError as error:
        _unwritten(error)
    except Exception as error:  # noqa: BLE001 - a traceback helps nobody who runs a command
        _defect(error)


def colour(environment: Mapping[str, str]) -> bool | None:
    """Whether output has colour; None to have it on terminals only.

    NO_COLOR and TERM=dumb forbid it, FORCE_COLOR asks for it: see https://no-color.org and https://force-color.org.
    """
    if environment.get("NO_COLOR") or environment.get("TERM") == "dumb":
        return False
    return True if environment.get("FORCE_COLOR") else None


def _flush() -> None:
    """Write what is left in the buffer, and end otherwise if that fails."""
    try:
        sys.stdout.flush()
    except OSError as error:
        _unwritten(error)


def _refuse(error: click.ClickException, arguments: Sequence[str]) -> NoReturn:
    """End with an error in words, and as a document where the results were to be JSON or YAML."""
    shown = _with_hint(error, arguments)
    try:
        shown.show()
        if asks_for(arguments, "json"):
            click.echo(json.dumps({"error": shown.format_message()}, indent=2, ensure_ascii=False))
        elif asks_for(arguments, "yaml"):
            click.echo(to_yaml({"error": shown.format_message()}), nl=False)
        sys.stdout.flush()
    except OSError as problem:
        _unwritten(problem)
    sys.exit(error.exit_code)


def _with_hint(error: click.ClickException, arguments: Sequence[str]) -> click.ClickException:
    """The error; one about a file where none can stand also says where it can."""
    message = error.format_message()
    if not isinstance(error, click.UsageError) or error.ctx is None or not _LACKS.search(message):
        return error
    options = {option for parameter in error.ctx.command.params for option in parameter.opts}
    pairs = pairwise(("", *arguments))
    files = [given for before, given in pairs if not before.startswith("-") and Path(given).exists()]
    if "-f" not in options or not files:
        return error
    return click.UsageError(f"{message.rstrip('.')}. Did you mean -f {files[-1]}?", error.ctx)


def asks_for(arguments: Sequence[str], form: str) -> bool:
    """Whether the arguments ask for a form of output. They are looked at as text, for they may be what is wrong."""
    together = {f"-o{form}", f"-o={form}", f"--output={form}"}
    apart = {("-o", form), ("--output", form)}
    return not together.isdisjoint(arguments) or not apart.isdisjoint(pairwise(arguments))


def _unwritten(error: OSError) -> NoReturn:
    """End after output that could not be written. Nobody is told who has closed the pipe."""
    # What is left in the buffer is not tried again when the interpreter ends.
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if error.errno == errno.EPIPE:
        sys.exit(_SIGNALLED + SIGPIPE)
    with suppress(OSError):
        what = error.filename or "standard output cannot be written"
        click.echo(f"Error: {what}: {error.strerror or error}", err=True)
    sys.exit(exits.FAILURE)


def _defect(error: Exception) -> NoReturn:
    """End after a defect, with what is needed to report it."""
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    places = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames))
    message = f"this is a defect of cks-admission, please report it: {type(error).__name__}: {error} ({places})"
    click.echo(f"Error: {message}", err=True)
    sys.exit(exits.FAILURE)
