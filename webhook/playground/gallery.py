"""Examples for the page: the cases of the packs, the commonest mistakes, and the beginnings of policies."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import yaml

from policies import suite as suites
from webhook.cli.output import to_yaml
from webhook.playground.trial import Trial

_OWN = Path(__file__).with_name("gallery.yaml")
_PACKS = Path(suites.__file__).parent / "packs"


class Example(NamedTuple):
    """A trial with its name."""

    name: str
    trial: Trial


@cache
def gallery() -> tuple[Example, ...]:
    """All examples, the beginnings first."""
    own = yaml.safe_load(_OWN.read_text(encoding="utf-8"))
    return (*(Example(name, Trial(**texts)) for name, texts in own.items()), *_packs())


def _packs() -> Iterator[Example]:
    for file in sorted(_PACKS.rglob("suite.yaml")):
        suite = suites.read(yaml.safe_load(file.read_text(encoding="utf-8")))
        policy = "---\n".join((file.parent / name).read_text(encoding="utf-8") for name in suite.policies)
        for case in suite.cases:
            obj, old = ("" if one is None else to_yaml(one) for one in (case.object, case.old_object))
            user, namespace = case.user, case.namespace
            labels = " ".join(f"{key}={value}" for key, value in namespace.labels.items())
            about = Trial(policy, obj, old, "", user.name, " ".join(user.groups), namespace.name, labels)
            yield Example(f"{suite.name}: {case.name}", about)
