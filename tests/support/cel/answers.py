"""Known answers to the checks of expressions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from policies.cel.library.authorizer import Check, CheckAnswer
from policies.engine.interruption import Missing


@dataclass(frozen=True, slots=True)
class Table:
    """A table of known answers."""

    answers: Mapping[Check, CheckAnswer]

    def answer(self, check: Check) -> CheckAnswer:
        """The answer in the table. Raises Missing for any other check."""
        answer = self.answers.get(check)
        if answer is None:
            raise Missing(check)
        return answer
