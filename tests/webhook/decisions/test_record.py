"""Records: what is left out of those that would be too long."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from support.builders import Json, pod
from support.service.reviews import body, violation

from policies.engine.engine import Answer, Decision
from webhook.configuration.settings import Content
from webhook.decisions import record
from webhook.decisions.record import Asked
from webhook.http.review import Decoder

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
