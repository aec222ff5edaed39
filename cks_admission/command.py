"""The command `cks-admission`, and the same one as kubectl's plugin: `kubectl cks`."""

from __future__ import annotations

import sys
from pathlib import Path

_OWN = ("certs", "cks_admission", "policies", "webhook")
_PLUGIN = "kubectl-cks"


def main() -> None:
    """Run the command, or say what to install: verbs that talk to clusters need more packages than the others."""
    name = "kubectl cks" if Path(sys.argv[0]).stem == _PLUGIN else "cks-admission"
    try:
        from webhook.cli.main import main as command  # noqa: PLC0415 - only here may it be missing

        command(prog_name=name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] in _OWN:
            raise
        remedy = "It comes with the extra `server`: pip install 'cks-admission[server]'"
        print(f"{name}: the package {error.name} is missing. {remedy}", file=sys.stderr)
        sys.exit(2)
