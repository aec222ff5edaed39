"""Which kinds an audit is asked for."""

from __future__ import annotations


class UnknownKindError(Exception):
    """A kind that is asked for cannot be audited; the text says why."""
