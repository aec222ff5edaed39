"""The decision log: what is sampled, where it is written, and what a record has."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.builders import Json, pod
from support.service.reviews import body, violation

from policies.engine.engine import Answer, Decision, RuleFailure, Unanimity
from webhook.configuration.settings import Content, DecisionsSettings, SampleSettings
from webhook.decisions import record
from webhook.decisions.log import Output, Sampling
from webhook.decisions.record import Asked
from webhook.http.review import Decoder


def _written(directory: Path, *lines: str, longest: int, older: int) -> dict[str, str]:
    """The files after these lines were written."""
    output = Output(directory / "log", longest, older)
    for line in lines:
        output.write(line.encode())
    output.close()
    return {file.name: file.read_text(encoding="utf-8") for file in sorted(directory.iterdir())}


def test_files_are_rotated(tmp_path: Path) -> None:
    """A file that would get too large is renamed, and of the older ones so many are kept; no line is torn."""
    texts = _written(tmp_path, *(f"line {number}\n" for number in range(8)), longest=12, older=2)

    assert texts == {"log": "line 7\n", "log.1": "line 6\n", "log.2": "line 5\n"}
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_a_torn_line_is_ended(tmp_path: Path) -> None:
    """A process that begins with a file whose last line is torn writes its own on a new one."""
    (tmp_path / "log").write_text("half", encoding="utf-8")

    assert _written(tmp_path, "whole\n", longest=1000, older=1) == {"log": "half\nwhole\n"}


_ADMITTED = Answer(Unanimity((Decision("labels", "admit"), Decision("team", "admit"))))
_WARNED = Answer((Decision("labels", "admit"), Decision("team", "warn", (violation(),))))
_REFUSED = Answer((Decision("labels", "deny", (violation(),)), Decision("team", "admit")))
_FAILED = Answer((Decision("team", "error", failure=RuleFailure(ValueError("x"), "Ignore")),))
_ANSWERS = {"none": Answer(), "admitted": _ADMITTED, "warned": _WARNED, "refused": _REFUSED, "failed": _FAILED}


def _taken(*samples: SampleSettings) -> set[str]:
    sampling = Sampling(samples)
    return {name for name, answer in _ANSWERS.items() for _ in range(2) if sampling.takes("uid", answer)}


def test_the_default_takes_refusals_and_failures() -> None:
    """Nothing that was admitted is recorded unless somebody asks for it, but for rules that failed."""
    assert _taken(*DecisionsSettings().samples) == {"refused", "failed"}


def test_the_first_entry_with_rule_and_verdict_counts() -> None:
    """An entry may leave out a rule that a later one would take; an answer without any rule is an admission."""
    everything = SampleSettings(verdicts=("admit", "warn"))

    assert _taken() == set()
    assert _taken(everything) == {"none", "admitted", "warned", "refused"}
    assert _taken(SampleSettings(verdicts=("admit",), rules=("t*",))) == {"admitted", "refused"}
    assert _taken(SampleSettings(verdicts=("admit", "warn"), share=0), everything) == set()


def test_a_share_goes_by_the_uid() -> None:
    """Of many reviews about the share is taken, and each one always or never."""
    sampling = Sampling((SampleSettings(verdicts=("deny",), share=0.25),))
    taken = [uid for uid in map(str, range(4000)) if sampling.takes(uid, _REFUSED)]

    assert 900 < len(taken) < 1100
    assert [uid for uid in map(str, range(4000)) if sampling.takes(uid, _REFUSED)] == taken


_DENIED = Answer((Decision("tidy", "deny", (violation(),)), Decision("labels", "admit")))
_LONGEST = 4096


def _recorded(content: Content, sent: bytes, answer: Answer = _DENIED) -> Json:
    request = Decoder(()).decode(sent)
    asked = Asked(sent, "/validate", request, answer, datetime(2026, 3, 1, tzinfo=UTC), 0.1, "1.37", {"team": "a"})
    line = record.line(asked, content, _LONGEST)
    assert len(line) <= _LONGEST
    assert line.count(b"\n") == 1
    read: Json = json.loads(line)
    return read


def _some(found: Json, *keys: str) -> list[Any]:
    return [found.get(key) for key in keys]


@pytest.mark.parametrize(
    ("content", "told", "labels"), [("none", False, None), ("messages", True, None), ("objects", True, {"team": "a"})]
)
def test_content(content: Content, told: bool, labels: Json | None) -> None:  # noqa: FBT001 - a row of the table
    """Each level of content has what the reference says, and no other has values of the object."""
    found = _recorded(content, body(pod(metadata={"name": "web", "managedFields": [{"manager": "kubectl"}]})))

    assert _some(found, "content", "namespaceLabels", "leftOut") == [content, labels, None]
    assert [("message" in decision) for decision in found["decisions"]] == [told, False]
    assert ("warnings" in found, "masked" in found) == (told, told)
    assert found["request"].get("object", {}).get("metadata") == ({"name": "web"} if content == "objects" else None)


def test_a_review_that_is_too_large() -> None:
    """Its messages and objects are left out, and the record says why."""
    sent = body(pod(labels={"a": "x" * _LONGEST}))
    found = _recorded("objects", sent)

    why = f"the review has {len(sent)} bytes; decisions.maxRecordBytes is 4096"
    assert _some(found, "content", "leftOut", "masked", "warnings") == ["none", why, None, None]
    assert found["decisions"][0] == {"rule": "tidy", "verdict": "deny", "refuses": True, "paths": ["metadata.name"]}


def test_a_record_that_is_too_large_without_content() -> None:
    """Many rules and groups do not make it longer: what refuses is named first, a few of them."""
    many = Answer(tuple(Decision(f"policy-{n}", "deny" if n % 2 else "admit", (violation(),)) for n in range(500)))
    user = {"username": "alice", "groups": [f"group-{n}" for n in range(500)]}
    found = _recorded("none", body(pod(), userInfo=user), many)

    assert found["decisions"] == [{"rule": f"policy-{n}", "verdict": "deny"} for n in range(1, 41, 2)]
    assert len(found["request"]["userInfo"]["groups"]) == 20
    assert found["leftOut"].endswith("bytes; decisions.maxRecordBytes is 4096")


def test_a_review_that_is_nested_too_deeply() -> None:
    """Nobody can read it, so its content is left out."""
    nested = '{"a":' * 700 + "1" + "}" * 700
    sent = body(pod()).replace(b'"spec": {', f'"odd": {nested}, "spec": {{'.encode())

    assert _recorded("objects", sent)["leftOut"].startswith("the review ")
