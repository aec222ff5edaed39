"""The command `cks-admission`, which needs more packages than the library."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command, or say what to install."""
    try:
        from webhook.cli.main import main as command  # noqa: PLC0415 - only here may it be missing
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] in ("certs", "policies", "webhook"):
            raise
        remedy = "Without the extra `server` only the library is there: pip install 'cks-admission[server]'"
        print(f"cks-admission: the package {error.name} is missing. {remedy}", file=sys.stderr)
        sys.exit(2)
    command()
