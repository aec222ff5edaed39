"""Which answers are recorded. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

from policies.engine.engine import Answer, Unanimity
from policies.kubernetes.name import matches_glob
from webhook.configuration.settings import SampleSettings

# How many pairs of a rule and a verdict are remembered: as many as rules and their verdicts in a large cluster.
_MEMORY = 4096
_HASHES = 2**32


class Sampling:
    """Chooses by rule and verdict, and of those a share by the uid of the review: no chance is needed."""

    def __init__(self, samples: Sequence[SampleSettings]) -> None:
        self._samples = samples
        self._shares: dict[tuple[str, str], float] = {}
        self._unanimous: dict[Unanimity, float] = {}

    def takes(self, uid: str, answer: Answer) -> bool:
        """Whether an answer is recorded: the largest share of its decisions counts."""
        share = self._of(answer)
        return share > 0 and crc32(uid.encode(errors="replace")) < share * _HASHES

    def _of(self, answer: Answer) -> float:
        alike = answer.unanimity
        if alike is None:
            return max((self._share(d.rule, d.verdict) for d in answer.decisions), default=self._share("", "admit"))
        share = self._unanimous.get(alike)
        if share is None:
            share = max(self._share(decision.rule, "admit") for decision in alike)
            if len(self._unanimous) >= _MEMORY:
                self._unanimous.clear()
            self._unanimous[alike] = share
        return share

    def _share(self, rule: str, verdict: str) -> float:
        share = self._shares.get((rule, verdict))
        if share is None:
            share = next((s.share for s in self._samples if verdict in s.verdicts and matches_glob(rule, s.rules)), 0.0)
            if len(self._shares) >= _MEMORY:
                self._shares.clear()
            self._shares[rule, verdict] = share
        return share
