"""kubectl as a person runs it: with a kubeconfig and its own home directory. All of its output is kept."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

BRIEF = {"GOGC": "off", "GOMEMLIMIT": "512MiB", "GOMAXPROCS": "1"}
"""The environment of a Go program that ends soon: it need not look for garbage, which takes a third of its CPU time."""

_SECONDS = 180  # more than it waits for anything itself


@dataclass(frozen=True)
class Completed:
    """What a command answered."""

    returncode: int
    stdout: str
    stderr: str


class KubectlError(AssertionError):
    """A kubectl call that had to succeed did not, or did not come back; an AssertionError, as a test is what asked."""


def run(program: Path, home: Path, kubeconfig: Path, arguments: tuple[str, ...], text: str | None) -> Completed:
    """Run kubectl once. Raises KubectlError if it does not end in time."""
    environment = {
        "HOME": str(home),
        "KUBECONFIG": str(kubeconfig),
        "PATH": os.environ.get("PATH", ""),
        "KUBECTL_KUBERC": "false",
        "NO_COLOR": "1",
        "NO_PROXY": "127.0.0.1",
        **BRIEF,
    }
    try:
        done = subprocess.run(
            [program, *arguments],
            env=environment,
            input=text if text is not None else "",
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise KubectlError(f"kubectl {' '.join(arguments)}: no end after {_SECONDS} s") from error
    return Completed(done.returncode, done.stdout, done.stderr)


def require(completed: Completed, arguments: tuple[str, ...]) -> None:
    """Raise KubectlError with all that kubectl printed unless it succeeded."""
    if completed.returncode != 0:
        printed = "\n".join(part.strip() for part in (completed.stdout, completed.stderr) if part.strip())
        raise KubectlError(f"kubectl {' '.join(arguments)} ended with {completed.returncode}:\n{printed}")
