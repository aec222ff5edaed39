"""Prints what is pinned here and has a newer version on its registry: `make upstream`.

Go modules are those that the test cluster is built from, Python packages those of requirements/dev.txt. The kinds of
other projects (tests/cluster/crds.py) are written by hand; their newest modules are printed to be compared.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

_TOOLS = Path(__file__).parent / "cluster" / "tools"
_KINDS = ("sigs.k8s.io/kueue", "github.com/kubeflow/trainer/v2")
_SECONDS = 300


def _output(*command: str, folder: Path | None = None) -> str:
    """What a command prints. Raises CalledProcessError; its reasons are on stderr."""
    environment = {**os.environ, "GOFLAGS": "-mod=mod", "GOWORK": "off"}
    done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, check=True, timeout=_SECONDS)
    return done.stdout.decode()


def _modules(folder: Path) -> list[str]:
    """A line for each module that a go.mod names and that has a newer version."""
    module: dict[str, Any] = json.loads(_output("go", "mod", "edit", "-json", folder=folder))
    direct = {one["Path"] for one in module["Require"] if not one.get("Indirect")}
    form = "{{with .Update}}{{$.Path}} {{$.Version}} -> {{.Version}}{{end}}"
    return _output("go", "list", "-m", "-u", "-f", form, *sorted(direct), folder=folder).split("\n")


def main() -> None:
    """Print the lists."""
    for folder in sorted(path.parent for path in _TOOLS.glob("*/go.mod")):
        newer = [line for line in _modules(folder) if line]
        print(f"{folder.name}: {'' if newer else 'nothing newer'}", *newer, sep="\n  " if newer else "")
    versions = _output("go", "list", "-m", "-versions", "k8s.io/kubernetes", folder=_TOOLS / "kubernetes").split()
    print(f"Kubernetes: {', '.join(versions[-4:])}")
    print(
        *(_output("go", "list", "-m", f"{path}@latest", folder=_TOOLS / "kubernetes").strip() for path in _KINDS),
        sep="\n",
    )
    print(_output(sys.executable, "-m", "pip", "list", "--outdated", "--disable-pip-version-check"))


if __name__ == "__main__":
    main()
