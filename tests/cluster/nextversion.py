"""The command of a later version: the installed one with one more rule, which fails closed under a path of its own.

The kubelet of the tests runs it for images with the tag `next`. Everything else is the installed version's.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from policies.engine.match import ResourceRule
from policies.engine.rule import Hook, HookCondition, Rule, RuleSet
from policies.engine.violation import Violation
from webhook.cli.main import main
from webhook.configuration import rules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.engine.facts import Facts
    from policies.engine.request import AdmissionRequest

REFUSAL = "The next version refuses tiers."
PATH = "/validate/tiers"

_CONFIG_MAPS = ResourceRule(("CREATE", "UPDATE"), ("",), ("configmaps",), ("v1",))
_TIERED = HookCondition("tiered", "has(object.metadata.labels) && 'tier' in object.metadata.labels")
_build = rules.build


def _refused(_request: AdmissionRequest, _facts: Facts) -> Sequence[Violation]:
    return [Violation("tiers", "metadata.labels", "tier", "is refused", REFUSAL, "Leave it out.")]


def _with_tiers(*arguments: Any, **more: Any) -> RuleSet:
    made = _build(*arguments, **more)
    hook = Hook("validate", "tiers", (_CONFIG_MAPS,), "Fail", (_TIERED,))
    return RuleSet(
        [*made.rules, Rule("tiers", (hook,), "deny", frozenset(), validate=_refused)], made.exceptions, made.safety
    )


if __name__ == "__main__":
    rules.build = _with_tiers
    sys.argv[0] = str(Path(sys.executable).parent / "cks-admission")
    main()
