"""The pages of the documentation, typed on a control plane."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from support import shown
from support.terminal import Output

from cluster.polling import PATIENCE, NotYet, wait_for

if TYPE_CHECKING:
    from support.terminal import Program, Terminal

    from cluster.controlplane import ControlPlane

# What changes nothing is typed again until it prints what is shown: a reload takes seconds, a registration some more.
_ASKS = re.compile(r"--dry-run=server$|^kubectl -n \S+ (?:exec|logs) |^cks-admission doctor |patch secret ")
# Where objects stand in what the API server returns depends on what else is there.
_LINES = re.compile(r"(?<=there\.yaml:)\d+|(?<=\(line )\d+")


def enter(terminal: Terminal, line: str, output: str) -> None:
    """Type a command of a page. Raises GaveUpError, with the output, if the page shows another one."""

    def as_shown() -> bool:
        printed = terminal.enter(line)
        if not shown.is_as_shown(_LINES.sub("N", printed), _LINES.sub("N", output)):
            raise NotYet(f"\n{printed}instead of\n{output}")
        return True

    wait_for(line, as_shown, PATIENCE if _ASKS.search(line) else 0.0)


def kubectl(cluster: ControlPlane) -> Program:
    """Kubectl as alice."""

    def run(arguments: list[str], stdin: str) -> Output:
        done = cluster.kubectl(*arguments, input=stdin)
        return Output(done.stdout, done.stderr, done.returncode)

    return run
