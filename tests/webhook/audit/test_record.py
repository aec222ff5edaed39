"""What is kept of an audit."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from webhook.audit.finding import (
    MOST,
    AuditError,
    Finding,
    Judged,
    Record,
    Subject,
    Verdict,
    by_policy,
    count,
    count_policies,
    newest,
)

_POD = Subject("v1", "Pod", "a", "web", "uid", "Pod/web", None)


def _record(shard: str, ended: int) -> Record:
    return Record(
        shard, "openreports.io/v1alpha1", ended, 1.5, 3, 0, {"deny": 1}, {"team": {"deny": 1}}, {"written": 1}, {}
    )


def _texts(*records: Record) -> dict[str, str]:
    return {record.key: msgspec.json.encode(record).decode() for record in records}


def _judged(*findings: tuple[str, Verdict]) -> Judged:
    return Judged(_POD, tuple(Finding(_POD, policy, verdict, "", "") for policy, verdict in findings))


def test_objects_are_counted_not_findings() -> None:
    """An object with several findings of a policy counts once for it; a policy with more objects comes first."""
    counts, policies = Counter[str](), Counter[tuple[str, str]]()
    for judged in (
        _judged(("team", "deny"), ("team", "deny"), ("latest", "warn")),
        _judged(("team", "deny"), ("team", "exempt")),
        _judged(),
    ):
        count(counts, judged)
        count_policies(policies, judged)

    assert counts == {"objects": 3, "deny": 2, "exempt": 1, "warn": 1}
    assert list(by_policy(policies).items()) == [("team", {"deny": 2, "exempt": 1}), ("latest", {"warn": 1})]


def test_policies_are_bounded() -> None:
    """Of more policies than a record holds, those with the fewest objects are left out."""
    counts = {(f"p{number}", "deny"): 2 if number else 1 for number in range(MOST + 1)}

    assert by_policy(counts) == {f"p{number}": {"deny": 2} for number in range(1, MOST + 1)}


def test_parts_that_are_no_more_are_left_out() -> None:
    """After an audit in two parts, the records of one in three before do not count; before the first there is none."""
    old, new = [_record(f"{number}/3", 100) for number in range(3)], [_record(f"{number}/2", 200) for number in (0, 1)]

    assert newest(_texts(*old) | _texts(*new)) == new
    assert newest({}) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "Input data was truncated"),
        ("{}", "Object missing required field `shard`"),
        ('{"x": ' + "[" * 100_000, "maximum recursion depth exceeded"),
    ],
    ids=["cut", "empty", "deep"],
)
def test_what_is_no_record_is_named(text: str, reason: str) -> None:
    """Whoever has changed what was kept is told which entry, and what is wrong with it."""
    with pytest.raises(AuditError) as error:
        newest({"0": text})

    assert str(error.value).partition(" while ")[0] == f"data['0'] is no record of an audit: {reason}"
