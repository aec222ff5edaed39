"""The command `cks-admission`, and the same one as kubectl's plugin: `kubectl cks`."""

from __future__ import annotations

import sys
from pathlib import Path

_PLUGIN = "kubectl-cks"


def main() -> None:
    """Run the command, or say what to install."""
    name = "kubectl cks" if Path(sys.argv[0]).stem == _PLUGIN else "cks-admission"
    try:
        from webhook.cli.main import main as command  # noqa: PLC0415 - only here may click be missing
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        print(f"{name}: the package click is missing: pip install cks-admission", file=sys.stderr)
        sys.exit(2)
    command(prog_name=name)
