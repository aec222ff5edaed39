"""What the server, `review` and `check` say of the same reviews, and the promises that bind them together."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonpatch
from click.testing import CliRunner
from support.service.reviews import review

from fuzzing.reviews import Review
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
        errors = _errors(result.stderr)
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


def _errors(stderr: str) -> dict[int, bytes]:
    """The errors of `review` by line number, each as the server words it."""
    lines = [line.partition(": HTTP ") for line in stderr.splitlines() if line.startswith("line ")]
    return {int(name.removeprefix("line ")): error[len("400: ") :].encode() for name, _, error in lines}


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
    return json.dumps(whole, ensure_ascii=False).encode("utf-8", "surrogatepass")


def as_file(created: Any) -> bytes:
    """The object of a CREATE as the bytes of a JSON file."""
    return json.dumps(created, ensure_ascii=False).encode("utf-8", "surrogatepass")


def as_review(created: Any) -> bytes:
    """The review that the API server would send of the object in a file, as `check` makes it up."""
    asked = manifest.request(created, None, user=ALICE, namespace="default")
    kind = {"group": asked.kind.group, "version": asked.kind.version, "kind": asked.kind.kind}
    resource = {**kind, "resource": asked.resource.resource}
    del resource["kind"]
    made = review(created, name=asked.name, namespace=asked.namespace, kind=kind, resource=resource, dryRun=True)
    return json.dumps(made, ensure_ascii=False).encode("utf-8", "surrogatepass")
