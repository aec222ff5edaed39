"""Quantities: whether one is above zero, and how much it is.

All that CEL can do with them, and the errors of the API server, are in `policies/cel/library/kubernetes/quantity.py`.
https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

from __future__ import annotations

import re
from functools import lru_cache

# A quantity is a number with a suffix or an exponent. It is above zero if the number has a digit other than 0.
_ABOVE_ZERO = re.compile(r"\s*\+?[0-9.]*[1-9]").match
_AMOUNT = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<places>[0-9]*))?(?P<unit>[numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?"
).fullmatch
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_LARGEST = 2**63 - 1
_FARTHEST = 40


def is_above_zero(quantity: object) -> bool:
    """Whether a quantity, written as a text or a number, is above zero."""
    if isinstance(quantity, int | float):
        return quantity > 0
    return isinstance(quantity, str) and _ABOVE_ZERO(quantity) is not None


@lru_cache(maxsize=4096)
def thousandths(quantity: str | float) -> int:
    """A quantity in thousandths, rounded up as the API server stores it. Raises ValueError for what is no quantity.

    Source: SetDefaults_ResourceList of Kubernetes, which rounds every amount up to three places.
    """
    match = _AMOUNT(str(quantity))
    if match is None or not (match["whole"] or match["places"]) or match["sign"] == "-":
        raise ValueError(f"{quantity!r} is no amount; one such as 8, 500m or 1.5Gi was expected")
    places, unit = match["places"] or "", match["unit"] or ""
    digits = int(match["whole"] + places)
    if unit in _BINARY:
        numerator, exponent = digits * 2 ** _BINARY[unit], 3 - len(places)
    else:
        power = _DECIMAL[unit] if unit in _DECIMAL else int(unit[1:])
        # Beyond these the amount is the largest or the smallest that there is.
        numerator, exponent = digits, 3 - len(places) + max(-_FARTHEST, min(_FARTHEST, power))
    amount: int = numerator * 10**exponent if exponent >= 0 else -(-numerator // 10**-exponent)
    return min(amount, _LARGEST * 1000)
