"""Counts of findings by policy, Namespace and workload, with the first few of each."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterable
from typing import Final

from msgspec import Struct, field

from webhook.audit.finding import Finding, Verdict

EXAMPLES: Final = 50
"""How many findings of a policy are kept. Its further ones are counted."""
CHANGES: Final = 200
"""How many changes, and how many exceptions, are kept."""


class Sample(Struct):
    """The first findings of several. total: how many there are. limit: how many are kept."""

    limit: int
    kept: list[Finding] = field(default_factory=list)
    total: int = 0

    def add(self, finding: Finding) -> None:
        """Count a finding, and keep it if there is room."""
        self.total += 1
        if len(self.kept) < self.limit:
            self.kept.append(finding)

    @property
    def rest(self) -> int:
        """How many are not kept."""
        return self.total - len(self.kept)


class Soonest(Sample):
    """The exceptions that end first, in this order; those without an end are the last."""

    def add(self, finding: Finding) -> None:
        """Count an exception, and keep it if it ends before another one."""
        self.total += 1
        insort(self.kept, finding, key=lambda exception: (not exception.until, exception.until))
        del self.kept[self.limit :]


class Group(Struct):
    """What is counted for one policy, Namespace or workload. policies: how often each found something."""

    verdicts: Counter[Verdict] = field(default_factory=Counter)
    policies: Counter[str] = field(default_factory=Counter)
    sample: Sample = field(default_factory=lambda: Sample(EXAMPLES))

    @property
    def total(self) -> int:
        """How many findings there are."""
        return self.verdicts.total()


class Tally(Struct):
    """The counts of all findings. workloads: by Namespace, and kind and name."""

    verdicts: Counter[Verdict] = field(default_factory=Counter)
    policies: dict[str, Group] = field(default_factory=dict)
    namespaces: dict[str, Group] = field(default_factory=dict)
    workloads: dict[tuple[str, str], Group] = field(default_factory=dict)
    changes: Sample = field(default_factory=lambda: Sample(CHANGES))
    exceptions: Soonest = field(default_factory=lambda: Soonest(CHANGES))

    def add(self, finding: Finding) -> None:
        """Count a finding."""
        subject = finding.subject
        workload = subject.workload or f"{subject.kind}/{subject.name}"
        self.verdicts[finding.verdict] += 1
        policy = self.policies.setdefault(finding.policy, Group())
        if finding.verdict not in ("mutate", "exempt"):  # these have sections of their own
            policy.sample.add(finding)
        for group in (
            policy,
            self.namespaces.setdefault(subject.namespace, Group()),
            self.workloads.setdefault((subject.namespace, workload), Group()),
        ):
            group.verdicts[finding.verdict] += 1
            group.policies[finding.policy] += 1
        if finding.verdict == "mutate":
            self.changes.add(finding)
        elif finding.verdict == "exempt":
            self.exceptions.add(finding)


def tally(findings: Iterable[Finding]) -> Tally:
    """The counts of findings, each of which is read once and let go of unless it is an example."""
    counts = Tally()
    for finding in findings:
        counts.add(finding)
    return counts
