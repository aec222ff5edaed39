"""The command line, run in this process or as the real command."""

import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner, Result
from support.patience import PATIENCE

from webhook.cli.main import main

COMMAND = Path(sys.executable).with_name("cks-admission")


def run(*arguments: str, stdin: str | bytes | None = None) -> Result:
    """A run in this process, as wide as on a terminal. Exceptions other than SystemExit are raised."""
    result = CliRunner().invoke(main, arguments, input=stdin, prog_name="cks-admission", terminal_width=78)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def start(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """A run of the real command, to its end."""
    return subprocess.run([COMMAND, *arguments], input=stdin, capture_output=True, timeout=PATIENCE, check=False)


def last_line(text: str) -> str:
    """The last line of an error message."""
    return text.splitlines()[-1]
