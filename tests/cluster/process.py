"""A component as a child process, which is certain to end when the process that started it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_TAIL_LINES = 25

# Asks the kernel to kill this process when its parent dies (PR_SET_PDEATHSIG is 1; it survives exec), then becomes the
# component. A launcher instead of preexec_fn, which may deadlock in a process with threads. The parent is compared
# because it may have died before the request.
_LAUNCHER = """
import ctypes, os, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the process that started this component is gone")
os.execv(sys.argv[2], sys.argv[2:])
"""


class ComponentError(Exception):
    """A component of the control plane ended, or did not become ready; the text ends with its last log lines."""


class Component:
    """One running component and its log file."""

    def __init__(self, name: str, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        """Start it. The thread that does so must live as long as the component: the kernel watches that thread."""
        self.name = name
        self.log = log
        self.command = tuple(command)
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid()), *command],
                cwd=log.parent,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C in the terminal is for the parent, which stops us in order
            )

    @property
    def pid(self) -> int:
        """The id of the process, which also leads its own process group."""
        return self._process.pid

    def check(self) -> None:
        """Raise ComponentError if the component has ended."""
        code = self._process.poll()
        if code is not None:
            raise self.error(f"ended with {code}")

    def error(self, what: str) -> ComponentError:
        """Return an error that says `what` of this component and quotes the end of its log."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL_LINES:]
        return ComponentError("\n".join([f"{self.name} {what}. The end of its log:", *lines]))

    def terminate(self) -> None:
        """Ask it to end. Once only: to a second signal kube-apiserver answers by dropping everything."""
        self._signal(signal.SIGTERM)

    def end(self, timeout: float) -> None:
        """Wait until it has ended, and make it so after `timeout` seconds."""
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        # As long as it has not been waited for, its id cannot belong to another process.
        if self._process.poll() is None:
            os.killpg(self.pid, number)
