"""Two sets of policies about Pods, of which the second judges some otherwise, and a thousand Pods."""

from pathlib import Path
from typing import NamedTuple

from support.builders import Json, pod
from support.policies.policydocuments import policy
from support.service.reviews import body


class Sets(NamedTuple):
    """Directories of policies: those in force, and the changed ones."""

    old: Path
    new: Path


def written(directory: Path) -> Sets:
    """The two sets, in files."""
    sets = Sets(directory / "old", directory / "new")
    ends = policy("ends", "object.metadata.name.endsWith('x')", "The name ends in x.")
    starts = policy("ends", "object.metadata.name.startsWith('x')", "The name starts with x.")
    tier = policy("tier", "has(object.metadata.labels.tier)", "There is a tier.", "Warn")
    harder = tier.replace("[Warn]", "[Deny]")
    calm = policy("calm", "object.metadata.name != 'nobody'", "Nobody is called nobody.", fail="Ignore")
    also = policy("also", "!object.metadata.name.contains('q')", "No q.", "Warn")
    for path, policies in ((sets.old, (ends, tier, calm)), (sets.new, (starts, harder, calm, also))):
        path.mkdir()
        (path / "policies.yaml").write_text("".join(policies), encoding="utf-8")
    return sets


class Case(NamedTuple):
    """A Pod: its name, and whether it has the label that a policy asks for."""

    number: int
    name: str
    has_tier: bool

    @property
    def uid(self) -> str:
        """The uid of its review."""
        return f"case-{self.number}"

    @property
    def review(self) -> bytes:
        """The review of its creation. It holds a secret in its environment."""
        labels = {"tier": "front"} if self.has_tier else {}
        container = {"name": "main", "image": "a", "env": [{"name": "TOKEN", "value": "s3cret"}]}
        manifest: Json = pod(labels=labels, metadata={"name": self.name}, containers=[container])
        return body(manifest, uid=self.uid)

    @property
    def changes(self) -> dict[str, str]:
        """What becomes of each verdict at `/validate/policies` that changes, by policy."""
        then, now = self.name.endswith("x"), self.name.startswith("x")
        ends = {} if then == now else {"ends": "admit" if now else "refuse"}
        tier = {} if self.has_tier else {"tier": "refuse"}
        return {**ends, **tier, **({"also": "warn"} if "q" in self.name else {})}


def cases(count: int) -> list[Case]:
    """So many Pods, of which some verdicts change, in every combination."""
    names = [f"{first}{middle}-{{}}{last}" for first in "xab" for middle in "qrs" for last in "xyz"]
    return [Case(n, names[n % len(names)].format(n), n % 5 > 0) for n in range(count)]
