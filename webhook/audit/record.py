"""What an audit with reports did, in numbers: a line of the log, and what metrics are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from webhook.audit.finding import AuditError

if TYPE_CHECKING:
    from webhook.audit.audit import Judged

MOST: Final = 100
"""Policies in a record: those by which most objects were found."""


class Record(Struct, frozen=True):
    """What one audit, or one part of it, did. ended: Unix time.

    unreadable: kinds of which not all objects could be read. verdicts: objects with such a finding. findings: the same
    by policy. reports: how many were written, unchanged, removed, and refused by the API server. events: how many about
    them were written, omitted as too many, and failed.
    """

    shard: str
    api: str
    ended: int
    seconds: float
    objects: int
    unreadable: int
    verdicts: Mapping[str, int]
    findings: Mapping[str, Mapping[str, int]]
    reports: Mapping[str, int]
    events: Mapping[str, int]

    @property
    def parts(self) -> str:
        """Of how many parts this is one."""
        return self.shard.partition("/")[2]

    @property
    def key(self) -> str:
        """By what it is kept beside those of the other parts."""
        return self.shard.partition("/")[0]


_RECORD: Final = msgspec.json.Decoder(Record)


def count(counts: Counter[tuple[str, str]], judged: Judged) -> None:
    """Count an object by each policy and verdict, once, however many places the policy names."""
    counts.update({(finding.policy, finding.verdict) for finding in judged.findings})


def by_policy(counts: Mapping[tuple[str, str], int]) -> dict[str, dict[str, int]]:
    """Objects by policy and verdict, for the policies with the most, these first. counts: by both."""
    totals: Counter[str] = Counter()
    for (policy, _), objects in counts.items():
        totals[policy] += objects
    chosen: dict[str, dict[str, int]] = {policy: {} for policy, _ in totals.most_common(MOST)}
    for (policy, verdict), objects in sorted(counts.items()):
        if policy in chosen:
            chosen[policy][verdict] = objects
    return chosen


def newest(texts: Mapping[str, str]) -> list[Record]:
    """The records of the parts of the newest audit, by the texts that were kept. Raises AuditError.

    An audit in fewer parts than the one before leaves the records of those that are no more.
    """
    records = []
    for key, text in sorted(texts.items()):
        try:
            records.append(_RECORD.decode(text))
        except (msgspec.MsgspecError, RecursionError) as error:
            raise AuditError(f"data[{key!r}] is no record of an audit: {error}") from None
    parts = max(records, key=lambda record: record.ended).parts if records else ""
    return [record for record in records if record.parts == parts]
