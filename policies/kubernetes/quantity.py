"""Checks of quantities that need only their text.

Exact amounts, and the errors of the API server, are in `policies/cel/library/kubernetes/quantity.py`.
https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

from __future__ import annotations

import re

# A quantity is a number with a suffix or an exponent. It is above zero if the number has a digit other than 0.
_ABOVE_ZERO = re.compile(r"\s*\+?[0-9.]*[1-9]").match
_WHOLE = re.compile(r"\+?([0-9]+)([kMG]?)").fullmatch
_FACTORS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}


def is_above_zero(quantity: object) -> bool:
    """Whether a quantity, written as a text or a number, is above zero."""
    if isinstance(quantity, int | float):
        return quantity > 0
    return isinstance(quantity, str) and _ABOVE_ZERO(quantity) is not None


def count(quantity: str | float) -> int | None:
    """The whole number in a quantity such as 8 or 1k; None for any other. Extended resources are such quantities."""
    match = _WHOLE(str(quantity))
    return int(match[1]) * _FACTORS[match[2]] if match else None
