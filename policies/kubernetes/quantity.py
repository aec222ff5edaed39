"""What can be told of a quantity from its text alone.

Exact amounts, and the errors of the API server, are in `policies/cel/library/kubernetes/quantity.py`.
https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

from __future__ import annotations

import re

# A quantity is a number with a suffix or an exponent; it is above zero when its number has another digit than 0.
_ABOVE_ZERO = re.compile(r"\s*\+?[0-9.]*[1-9]").match
_WHOLE = re.compile(r"\+?([0-9]+)([kMG]?)").fullmatch
_FACTORS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}


def is_above_zero(quantity: object) -> bool:
    """Whether a quantity, which may also be written as a number, is more than nothing."""
    if isinstance(quantity, int | float):
        return quantity > 0
    return isinstance(quantity, str) and _ABOVE_ZERO(quantity) is not None


def count(quantity: str | float) -> int | None:
    """The count that the API server writes as 8 or 1k, None for anything else. Extended resources are such counts."""
    match = _WHOLE(str(quantity))
    return int(match[1]) * _FACTORS[match[2]] if match else None
