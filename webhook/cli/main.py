"""`cks-admission`: finds the verb and loads its module only, so that each starts fast; and how a run ends.

Whatever happens, there are words for people, an exit code, and JSON for who asked for it.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from functools import partial
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from signal import SIGINT, SIGPIPE
from typing import Any, NoReturn

import click

from policies.kubernetes.spelling import closest
from webhook.cli.output import FAILURE, OK, complain, packages, say, write

NAME = "cks-admission"
VERBS = {
    "serve": "Answer the API server's AdmissionReviews.",
    "manage": "Write certificates and webhook configurations for all replicas.",
    "place": "Choose domains for gangs and open the gates of their Pods.",
    "init": "Write the first files of a policy.",
    "check": "Show what kubectl apply would do to objects, without a cluster.",
    "why": "Explain a refusal or a warning, and what to do about it.",
    "test": "Run policy test suites, without a cluster.",
    "lint": "Find mistakes in policies, without running them.",
    "fmt": "Format the CEL expressions of policies, in their files.",
    "convert": "Turn CEL policies of Kyverno and Gatekeeper into native ones.",
    "review": "Answer AdmissionReviews from files or standard input.",
    "audit": "Show what policies would say to objects that exist already.",
    "replay": "Show whose verdict other policies would change.",
    "playground": "Open a page on which policies are tried.",
    "eval": "Evaluate a CEL expression as Kubernetes does, and explain it.",
    "topology": "Show topologies, place gangs, draw Nodes as a tree.",
    "certs": "Show, issue and verify certificates.",
    "export": "Print webhook configurations, settings, schemas or policies.",
    "doctor": "Check an installation and say how to fix what is wrong.",
    "unregister": "Remove the webhook configurations from a cluster.",
}

_PLACES = {
    **{verb: f"processes:{verb}" for verb in ("serve", "manage", "place", "unregister")},
    "init": "author:init",
    "fmt": "author:fmt",
    "convert": "native:convert",
    **{verb: f"reviews:{verb}" for verb in ("review", "replay")},
}
"""The modules of verbs, where these are not named as the verb, and the commands in them, where it is not `command`."""
_OTHERWISE = {"version": "--version", "help": "--help", "validate": "check"}
"""What is meant by words that are verbs of other programs."""


_LACKS = re.compile("unexpected extra argument|Missing option '-f'")
_FRAMES = 5
_SIGNALLED = 128
"""Shells add it to the number of the signal that ends a program."""


def loaded(verb: str) -> click.Command:
    """The command of a verb, its module loaded now."""
    module, _, name = _PLACES.get(verb, verb).partition(":")
    command: click.Command = getattr(import_module(f"webhook.cli.{module}"), name or "command")
    return command


def renamed(command: click.Command, name: str) -> click.Command:
    """The command, whose help calls the program by another name."""
    named = copy(command)
    named.help = command.help and command.help.replace(f"{NAME} ", f"{name} ")
    if isinstance(named, click.Group):
        named.commands = {verb: renamed(inner, name) for verb, inner in named.commands.items()}
    return named


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


class Verbs(click.Group):
    """A group whose commands are modules of this package."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, standalone_mode: bool = True, **more: Any) -> Any:
        """Run the command; in the end, every error is words and an exit code."""
        more.setdefault("color", colour(os.environ))
        command = partial(super().main, args, *rest, standalone_mode=False, **more)
        return run(command, args) if standalone_mode else command()

    def make_context(self, *arguments: Any, **more: Any) -> click.Context:
        """The context of a run."""
        with marked():
            return super().make_context(*arguments, **more)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb. Raises InputError where it needs a package that is not installed."""
        with marked(), packages():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The verbs, in the order in which people need them."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb's command, its module loaded now. Raises InputError as above."""
        if cmd_name not in VERBS:
            return None
        with packages():
            command = loaded(cmd_name)
        name = ctx.find_root().info_name or NAME
        return renamed(command, name) if name.startswith("kubectl") else command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The verb among the arguments, or an error that says which was meant."""
        given, name = args[0], ctx.find_root().info_name or NAME
        if given not in VERBS and not given.startswith("-") and not ctx.resilient_parsing:
            hint = f" It is a file: did you mean `{name} check {given}`?" if Path(given).exists() else ""
            if given == "help" and args[1:] and args[1] in VERBS:
                hint = f" Did you mean `{name} {args[1]} --help`?"
            elif meant := _OTHERWISE.get(given) or closest(given, VERBS):
                hint = f" Did you mean `{name} {meant}`?"
            ctx.fail(f"No such command {given!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The verbs with a line each, without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


def run(command: Callable[[], Any], arguments: Sequence[str] | None) -> NoReturn:
    """Run a command and end the process with the right code. arguments: those of the process if None."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        code = command()
        sys.stdout.flush()
        sys.exit(code if isinstance(code, int) else OK)
    except SystemExit:
        try:
            sys.stdout.flush()
        except OSError as error:
            _unwritten(error)
        raise
    except click.ClickException as error:
        # In words, and as a document where the results were to be JSON or YAML.
        shown = _with_hint(error, given)
        try:
            complain(shown)
            if form := next((form for form in ("json", "yaml") if asks_for(given, form)), ""):
                write({"error": shown.format_message()}, form)
            sys.stdout.flush()
        except OSError as problem:
            _unwritten(problem)
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(_SIGNALLED + SIGINT)
    except UnwrittenError as error:
        _unwritten(error.reason)
    except OSError as error:
        _unwritten(error)
    except Exception as error:  # noqa: BLE001 - a traceback helps nobody who runs a command
        frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
        places = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames))
        message = f"this is a defect of cks-admission, please report it: {type(error).__name__}: {error} ({places})"
        say(f"Error: {message}", err=True)
        sys.exit(FAILURE)


def colour(environment: Mapping[str, str]) -> bool | None:
    """Whether output has colour; None to have it on terminals only.

    NO_COLOR and TERM=dumb forbid it, FORCE_COLOR asks for it: see https://no-color.org and https://force-color.org.
    """
    if environment.get("NO_COLOR") or environment.get("TERM") == "dumb":
        return False
    return True if environment.get("FORCE_COLOR") else None


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
        say(f"Error: {what}: {error.strerror or error}", err=True)
    sys.exit(FAILURE)


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="cks-admission")
def main() -> None:
    """Admission webhook and policy service for GPU clouds that run Kubernetes the CoreWeave way.

    \b
    Exit codes: 0 admitted or no findings, 1 refused or findings,
    2 wrong usage or unreadable input, 3 the tool or the cluster failed.
    """
