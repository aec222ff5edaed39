"""Quantities as Kubernetes writes them."""

from __future__ import annotations

from typing import Any

from policies.cel.errors import CelError
from policies.cel.library.kubernetes import quantity
from policies.cel.library.kubernetes.amount import Large, round_up

MILLI = 3
"""The decimal places to which amounts of resources are rounded up (SetDefaults_ResourceList)."""


def canonical(value: Any, places: int | None = None) -> Any:
    """A quantity as Kubernetes writes it, rounded up to this many decimal places; any other value unchanged."""
    read = quantity_of(value)
    if read is None:
        return value
    if places is not None and (rounded := round_up(read.amount.decimal, places)) != read.amount.decimal:
        read = quantity.Quantity(Large(rounded, places), read.form)
    return str(read)


def quantity_of(value: Any) -> quantity.Quantity | None:
    """The quantity in a string or number, or None."""
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        return None
    try:
        return quantity.read(str(value))
    except CelError:
        return None
