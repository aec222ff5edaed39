"""Columns of numbers with one entry a Node, which grow with the cluster."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Codes = NDArray[np.int32]
Mask = NDArray[np.bool_]

K = TypeVar("K", bound=Hashable)
_FEWEST = 64


def room(rows: int) -> int:
    """The length of a column for so many rows. It doubles, so that growing costs little for each row."""
    return max(_FEWEST, 1 << (rows - 1).bit_length())


class Table(Generic[K]):
    """Columns of amounts by key. What was never added to is 0."""

    def __init__(self) -> None:
        self._columns: dict[K, Integers] = {}

    def __iter__(self) -> Iterator[K]:
        return iter(self._columns)

    def add(self, key: K, row: int, amount: int) -> None:
        """Add an amount to one entry."""
        column = self._columns.get(key)
        if column is None or row >= len(column):
            column = self._columns[key] = self._longer(column, row + 1)
        column[row] += amount

    def entry(self, key: K, row: int) -> int:
        """One entry of a column."""
        column = self._columns.get(key)
        return 0 if column is None or row >= len(column) else int(column[row])

    def column(self, key: K, size: int) -> Integers:
        """A copy of a column, with so many rows."""
        column = self._columns.get(key)
        if column is None or len(column) < size:
            return self._longer(column, size)[:size]
        return column[:size].copy()

    def _longer(self, column: Integers | None, rows: int) -> Integers:
        longer = np.zeros(room(rows), np.int64)
        if column is not None:
            longer[: len(column)] = column
        return longer
