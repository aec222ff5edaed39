"""What the server, `review` and `check` say of the same reviews, and verbs of documents that somebody got wrong."""

from __future__ import annotations

import faulthandler
import json
from base64 import b64decode
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import jsonpatch
import yaml
from click.testing import CliRunner
from support.service.reviews import review

from fuzzing.reviews import Review, as_bytes, changed, text, torn
from policies.engine.request import UserInfo
from webhook.cli import options
from webhook.cli.judging import decide
from webhook.cli.main import main
from webhook.files import manifest
from webhook.files.yamlfile import FileError
from webhook.http.review import API_VERSION, KIND

MALFORMED = range(400, 500)
ALICE = UserInfo("alice", groups=("dev", "system:authenticated"))


class BrokenPromiseError(AssertionError):
    """An input for which a promise does not hold; the text has the promise and the input."""


class Offline:
    """`review` and `check` with some policies, in this process."""

    def __init__(self, directories: Sequence[Path]) -> None:
        self._arguments = [argument for path in directories for argument in ("--policies", str(path))]
        settings = options.settings(None, {"policies__directories": tuple(map(str, directories))})
        today = datetime.now(UTC).date()
        files, self._ruleset = options.ruleset(settings, today, clustered=False)
        assert files is not None
        self._facts = files.facts(today)

    def review(self, bodies: Sequence[bytes], path: str) -> list[bytes]:
        """What `review` says of bodies: the answer of each or, as the server words it, why there is none."""
        result = CliRunner().invoke(main, ["review", "--path", path, *self._arguments, "-"], input=b"\n".join(bodies))
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise BrokenPromiseError(f"review raises no exception: {result.exception!r}") from result.exception
        answers = iter(result.stdout_bytes.splitlines())
        lines = [line.partition(": HTTP ") for line in result.stderr.splitlines() if line.startswith("line ")]
        errors = {int(name.removeprefix("line ")): error[len("400: ") :].encode() for name, _, error in lines}
        return [errors[number] if number in errors else next(answers) for number in range(1, len(bodies) + 1)]

    def check(self, body: bytes) -> tuple[bool, Any] | None:
        """Whether `check` would admit the object of a file, and the changed object; None for an unreadable file."""
        try:
            (written,) = manifest.read(["-"], body)
        except (FileError, ValueError):
            return None
        asked = manifest.request(written.object, None, user=ALICE, namespace="default")
        outcome = decide(written, asked, self._ruleset, self._facts)
        return outcome.allowed, outcome.changed


def same(item: Review, path: str, status: int, served: bytes, reviewed: bytes) -> None:
    """The server and `review` say the same, and never HTTP 5xx. Raises BrokenPromiseError."""
    if status != 200 and status not in MALFORMED:
        raise BrokenPromiseError(f"{path}: no review is answered with HTTP {status} {served!r}: {item.body!r}")
    if served.strip() != reviewed.strip():
        raise BrokenPromiseError(f"{path}: server and `review` agree: {served!r}, {reviewed!r}: {item.body!r}")


def patched(item: Review, answer: bytes) -> Any:
    """The object that an answer of /mutate leaves. Raises BrokenPromiseError for a patch that does not apply."""
    before = request(item.body)["object"]
    response = json.loads(answer)["response"]
    if ("patch" in response) != ("patchType" in response):
        raise BrokenPromiseError(f"patch and patchType come together: {answer!r}: {item.body!r}")
    if "patch" not in response:
        return before
    try:
        return jsonpatch.apply_patch(before, json.loads(b64decode(response["patch"])), in_place=True)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
        raise BrokenPromiseError(f"the patch applies ({error}): {answer!r}: {item.body!r}") from error


def request(body: bytes) -> Any:
    """The request of a review that the server could read. What it skips may be no UTF-8."""
    return json.loads(body.decode(errors="replace"))["request"]


def again(item: Review, changed: Any) -> bytes:
    """The review of the object that a patch left, with everything else as it was."""
    whole = {"apiVersion": API_VERSION, "kind": KIND, "request": {**request(item.body), "object": changed}}
    return as_bytes(whole)


def as_review(created: Any) -> bytes:
    """The review that the API server would send of the object in a file, as `check` makes it up."""
    asked = manifest.request(created, None, user=ALICE, namespace="default")
    kind = {"group": asked.kind.group, "version": asked.kind.version, "kind": asked.kind.kind}
    resource = {**kind, "resource": asked.resource.resource}
    del resource["kind"]
    made = review(created, name=asked.name, namespace=asked.namespace, kind=kind, resource=resource, dryRun=True)
    return as_bytes(made)


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
                following = self._file.with_name("configuration.yaml")
                following.write_text(yaml.safe_dump({"topology": {"files": [file]}}), encoding="utf-8")
                return TOPOLOGY, [*checked, "--config", str(following)]
            case 3:
                return random.choice(POLICIES).read_text(encoding="utf-8"), ["lint", file]
            case _:
                return random.choice(POLICIES).read_text(encoding="utf-8"), [*checked, "--policies", file]

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
            return torn(random, written.encode())
        case 1:
            return text(random, written).encode()
        case _:
            documents: list[Any] = [part for part in yaml.safe_load_all(written) if part is not None]
            place = random.randrange(len(documents))
            documents[place] = changed(random, documents[place], random.randint(1, 3))
            texts = (json.dumps(document, ensure_ascii=False) for document in documents)  # which is YAML as well
            return "\n---\n".join(texts).encode("utf-8", "surrogatepass")
