"""Policies, bindings, exceptions, topologies and configurations that somebody got wrong, read by the command line."""

from __future__ import annotations

import faulthandler
import json
from pathlib import Path
from random import Random
from typing import Any

import yaml
from click.testing import CliRunner

from fuzzing import change
from fuzzing.answers import BrokenPromiseError
from webhook.cli.main import main

ROOT = Path(__file__).parents[2]
POLICIES = tuple(
    path
    for folder in ("packs", "examples")
    for path in sorted((ROOT / "policies" / folder).rglob("*.yaml"))
    if path.name == "policy.yaml"
)
EXCEPTION = """
apiVersion: cks-admission.dev/v1
kind: PolicyException
metadata: {name: legacy}
spec:
  policies: [labels]
  reason: OPS-1
  until: "2099-12-31"
  match: {namespaces: [default], objectSelector: {matchLabels: {app: legacy}}}
"""
TOPOLOGY = """
apiVersion: kai.scheduler/v1alpha1
kind: Topology
metadata: {name: site}
spec:
  levels:
  - {nodeLabel: example.org/block, alias: block}
  - {nodeLabel: kubernetes.io/hostname}
"""
CONFIGURATION = """
listen: {host: 127.0.0.1, port: 9443, maxInFlight: 512}
labels:
  action: deny
  exceptions: [{key: qos.coreweave.cloud/interruptable, kinds: [Pod], values: ["true", "false"]}]
  exempt: {users: [robot], serviceAccounts: [ops/*]}
tolerations: {daemonSets: inject, accelerators: {resources: [nvidia.com/gpu]}}
topology:
  topologies: [{name: site, levels: [example.org/block, kubernetes.io/hostname]}]
  default: {topology: site, preferred: block}
exceptions: [{rules: [labels], reason: OPS-1, until: "2099-12-31", namespaces: [default]}]
workloads: [{group: example.org, kind: Trainer, templates: [spec.template], changes: always}]
"""
EXIT_CODES = (0, 1, 2)
HANG_SECONDS = 120.0
"""After so long a command is ended, and says where it was."""
OBJECT = """
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: default, annotations: {kai.scheduler/topology: site}}
spec: {containers: [{name: main, image: example.org/web:1}]}
"""


class Documents:
    """Reads spoilt documents through the verbs that people give them to; files are written to a directory."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "document.yaml"
        self._object = directory / "object.yaml"
        self._object.write_text(OBJECT, encoding="utf-8")

    def read(self, random: Random) -> None:
        """Read one spoilt document. Raises BrokenPromiseError, with the document."""
        written, arguments = self._choose(random)
        self._file.write_bytes(_spoilt(random, written))
        self._hold(arguments)

    def _choose(self, random: Random) -> tuple[str, list[str]]:
        """A document, and the command that reads it."""
        file, checked = str(self._file), ["check", "-f", str(self._object)]
        match random.randrange(6):
            case 0:
                return CONFIGURATION, [*checked, "--config", file]
            case 1:
                return EXCEPTION, [*checked, "--policies", file]
            case 2:
                return TOPOLOGY, [*checked, "--config", str(self._following())]
            case 3:
                return random.choice(POLICIES).read_text(encoding="utf-8"), ["lint", file]
            case _:
                return random.choice(POLICIES).read_text(encoding="utf-8"), [*checked, "--policies", file]

    def _following(self) -> Path:
        """A configuration that takes its topologies from the document."""
        configuration = self._file.with_name("configuration.yaml")
        configuration.write_text(yaml.safe_dump({"topology": {"files": [str(self._file)]}}), encoding="utf-8")
        return configuration

    def _hold(self, arguments: list[str]) -> None:
        """A command ends with an exit code of a bad input or a good one, and says where what is wrong."""
        faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
        result = CliRunner().invoke(main, arguments)
        faulthandler.cancel_dump_traceback_later()
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise self._broken("no exception", repr(result.exception), arguments) from result.exception
        if result.exit_code not in EXIT_CODES:
            raise self._broken("an exit code", f"{result.exit_code}: {result.output}", arguments)
        if result.exit_code == 2 and self._file.name not in result.stderr:
            raise self._broken("an error that names the file", result.stderr, arguments)

    def _broken(self, promise: str, instead: str, arguments: list[str]) -> BrokenPromiseError:
        content = self._file.read_bytes()
        return BrokenPromiseError(f"{' '.join(arguments[:1])} promises {promise}: {instead}\n{content!r}")


def _spoilt(random: Random, written: str) -> bytes:
    """A document with changed values, an edit of its text, or a fault in its bytes."""
    match random.randrange(4):
        case 0:
            return change.torn(random, written.encode())
        case 1:
            return change.text(random, written).encode()
        case _:
            documents: list[Any] = [part for part in yaml.safe_load_all(written) if part is not None]
            place = random.randrange(len(documents))
            documents[place] = change.value(random, documents[place], random.randint(1, 3))
            texts = (json.dumps(document, ensure_ascii=False) for document in documents)  # which is YAML as well
            return "\n---\n".join(texts).encode("utf-8", "surrogatepass")
