"""`cks-admission`: finds the verb and loads its module only, so that each starts fast."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from policies.kubernetes.spelling import closest
from webhook.cli.run import ending

VERBS = {
    "serve": "Answer the API server's AdmissionReviews.",
    "manage": "Write certificates and webhook configurations for all replicas.",
    "init": "Write the first files of a policy.",
    "check": "Show what kubectl apply would do to objects, without a cluster.",
    "test": "Run policy test suites, without a cluster.",
    "lint": "Find mistakes in policies, without running them.",
    "fmt": "Format the CEL expressions of policies, in their files.",
    "review": "Answer AdmissionReviews from files or standard input.",
    "eval": "Evaluate a CEL expression as Kubernetes does, and explain it.",
    "topology": "Show topologies, place gangs, draw Nodes as a tree.",
    "certs": "Show, issue and verify certificates.",
    "export": "Print webhook configurations, settings or native policies.",
    "doctor": "Check an installation and say how to fix what is wrong.",
    "unregister": "Remove the webhook configurations from a cluster.",
}

_OPERATOR = ("serve", "manage", "doctor", "certs", "unregister")
"""The verbs in the package `operator`."""
_OTHERWISE = {"version": "cks-admission --version", "help": "cks-admission --help", "validate": "cks-admission check"}
"""What is meant by words that are verbs of other programs."""


def module_of(verb: str) -> str:
    """The name of a verb's module."""
    return f"webhook.cli.operator.{verb}" if verb in _OPERATOR else f"webhook.cli.{verb}"


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
        """Run the verb."""
        with ending.marked():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The verbs, in the order in which people need them."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The verb's command, its module loaded now."""
        if cmd_name not in VERBS:
            return None
        command: click.Command = import_module(module_of(cmd_name)).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The verb among the arguments, or an error that says which was meant."""
        given = args[0]
        if given not in VERBS and not given.startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"No such command {given!r}.{_meant(given)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The verbs with a line each, without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


def _meant(given: str) -> str:
    """What was probably meant by a word that is no verb; empty if nobody knows."""
    if given in _OTHERWISE:
        return f" Did you mean `{_OTHERWISE[given]}`?"
    if near := closest(given, VERBS):
        return f" Did you mean `cks-admission {near}`?"
    return f" It is a file: did you mean `cks-admission check {given}`?" if Path(given).exists() else ""


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="cks-admission")
def main() -> None:
    """Admission webhook and policy service for GPU clouds that run Kubernetes the CoreWeave way.

    \b
    Exit codes: 0 admitted or no findings, 1 refused or findings,
    2 wrong usage or unreadable input, 3 the tool or the cluster failed.
    """
