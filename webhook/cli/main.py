"""`cks-admission`: finds the verb and loads its module only, so that each starts fast."""

from __future__ import annotations

import os
from collections.abc import Sequence
from copy import copy
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from policies.kubernetes.spelling import closest
from webhook.cli.exits import packages
from webhook.cli.run import ending

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
    "eval": "Evaluate a CEL expression as Kubernetes does, and explain it.",
    "topology": "Show topologies, place gangs, draw Nodes as a tree.",
    "certs": "Show, issue and verify certificates.",
    "export": "Print webhook configurations, settings, schemas or policies.",
    "doctor": "Check an installation and say how to fix what is wrong.",
    "unregister": "Remove the webhook configurations from a cluster.",
}

_PACKAGES = {
    "operator": ("serve", "manage", "place", "doctor", "certs", "unregister"),
    "author": ("init", "fmt", "convert", "export"),
    "audit": ("audit",),
}
"""The verbs whose modules are in a package of their own."""
_OTHERWISE = {"version": "--version", "help": "--help", "validate": "check"}
"""What is meant by words that are verbs of other programs."""


def module_of(verb: str) -> str:
    """The name of a verb's module."""
    package = next((f"{package}." for package, verbs in _PACKAGES.items() if verb in verbs), "")
    return f"webhook.cli.{package}{verb}"


def renamed(command: click.Command, name: str) -> click.Command:
    """The command, whose help calls the program by another name."""
    named = copy(command)
    named.help = command.help and command.help.replace(f"{NAME} ", f"{name} ")
    if isinstance(named, click.Group):
        named.commands = {verb: renamed(inner, name) for verb, inner in named.commands.items()}
    return named


class Verbs(click.Group):
    """A group whose commands are modules of this package."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, standalone_mode: bool = True, **more: Any) -> Any:
        """Run the command; in the end, every error is words and an exit code."""
        more.setdefault("color", ending.colour(os.environ))
        run = partial(super().main, args, *rest, standalone_mode=False, **more)
        return ending.run(run, args) if standalone_mode else run()

    def make_context(self, *arguments: Any, **more: Any) -> click.Context:
        """The context of a run."""
        with ending.marked():
            return super().make_context(*arguments, **more)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb. Raises InputError where it needs a package that is not installed."""
        with ending.marked(), packages():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The verbs, in the order in which people need them."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb's command, its module loaded now. Raises InputError as above."""
        if cmd_name not in VERBS:
            return None
        with packages():
            command: click.Command = import_module(module_of(cmd_name)).command
        name = ctx.find_root().info_name or NAME
        return renamed(command, name) if name.startswith("kubectl") else command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The verb among the arguments, or an error that says which was meant."""
        given = args[0]
        if given not in VERBS and not given.startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"No such command {given!r}.{_meant(given, args[1:], ctx.find_root().info_name or NAME)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The verbs with a line each, without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


def _meant(given: str, rest: Sequence[str], name: str) -> str:
    """What was probably meant by a word that is no verb, and the rest; empty if nobody knows. name: the program's."""
    if given == "help" and rest and rest[0] in VERBS:
        return f" Did you mean `{name} {rest[0]} --help`?"
    if meant := _OTHERWISE.get(given) or closest(given, VERBS):
        return f" Did you mean `{name} {meant}`?"
    return f" It is a file: did you mean `{name} check {given}`?" if Path(given).exists() else ""


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="cks-admission")
def main() -> None:
    """Admission webhook and policy service for GPU clouds that run Kubernetes the CoreWeave way.

    \b
    Exit codes: 0 admitted or no findings, 1 refused or findings,
    2 wrong usage or unreadable input, 3 the tool or the cluster failed.
    """
