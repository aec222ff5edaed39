"""The labels of Nodes, with columns for the keys that somebody asks for.

A column holds numbers in the place of values. It is made when it is asked for, which takes some milliseconds with
10,000 Nodes, and follows each Node from then on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from sys import intern

import numpy as np

from policies.engine.match import holds
from policies.topology.gang.gang import Requirement
from policies.topology.nodes.table import Codes, Integers, Mask, room

Rows = slice | Integers
NO_LABELS: Mapping[str, str] = {}
NAME = ""
"""The key under which a Node's name stands among its labels, for requirements on it."""

# Selectors name any key. Columns beyond so many are made again when they are needed.
_MOST_KEYS = 64
# Values of Nodes that are gone are kept until there are so many of them.
_MOST_VALUES = 1000


class Column:
    """The domains of a level by row: codes, -1 without any of the keys. values: by code.

    distinct: whether the same value under another key is another domain.
    """

    def __init__(self, keys: tuple[str, ...], *, distinct: bool) -> None:
        self.values: list[str] = []
        self.numbers: dict[tuple[int, str], int] = {}
        self._codes: Codes = np.full(room(1), -1, np.int32)
        self._keys = keys
        self._distinct = distinct

    def put(self, row: int, labels: Mapping[str, str]) -> None:
        """Enter the labels of a row."""
        self.upto(row + 1)[row] = self._code(labels)

    def fill(self, labels: Sequence[Mapping[str, str]]) -> None:
        """Enter the labels of all rows."""
        self.upto(len(labels))[:] = np.fromiter(map(self._code, labels), np.int32, len(labels))

    def upto(self, size: int) -> Codes:
        """The codes of so many rows. They are not to be written to."""
        if size > len(self._codes):
            longer = np.full(room(size), -1, np.int32)
            longer[: len(self._codes)] = self._codes
            self._codes = longer
        return self._codes[:size]

    def _code(self, labels: Mapping[str, str]) -> int:
        for position, key in enumerate(self._keys):
            value = labels.get(key)
            if value is not None:
                number = self.numbers.setdefault((position if self._distinct else 0, value), len(self.values))
                if number == len(self.values):
                    self.values.append(value)
                return number
        return -1


class Labels:
    """The labels of Nodes by row."""

    def __init__(self) -> None:
        self._labels: list[Mapping[str, str]] = []
        self._levels: dict[tuple[tuple[str, ...], bool], Column] = {}
        self._keys: dict[str, Column] = {}

    def put(self, row: int, labels: Mapping[str, str]) -> bool:
        """Whether these labels differ from those that the row had, which they replace."""
        while row >= len(self._labels):
            self._labels.append(NO_LABELS)
        if self._labels[row] == labels:
            return False
        self._labels[row] = {intern(key): intern(value) for key, value in labels.items()}
        for columns in (self._levels, self._keys):
            for key, column in [*columns.items()]:
                column.put(row, labels)
                if len(column.values) > 2 * len(self._labels) + _MOST_VALUES:
                    del columns[key]
        return True

    def of(self, row: int) -> Mapping[str, str]:
        """The labels of a row."""
        return self._labels[row]

    def level(self, keys: tuple[str, ...], *, distinct: bool) -> Column:
        """The column of a level of a topology."""
        column = self._levels.get((keys, distinct))
        if column is None:
            column = self._levels[keys, distinct] = self._column(keys, distinct=distinct)
        return column

    def meets(self, requirement: Requirement, rows: Rows) -> Mask:
        """Which of the rows meet a requirement. Source: Requirement.Matches of k8s.io/apimachinery's labels."""
        column = self._key(requirement.key)
        # The last entry stands for rows without the label, whose code is -1.
        table = np.zeros(len(column.values) + 1, np.bool_)
        match requirement.operator:
            case "In" | "NotIn":
                numbers = (column.numbers.get((0, value)) for value in requirement.values)
                table[[number for number in numbers if number is not None]] = True
                table = ~table if requirement.operator == "NotIn" else table
            case "Exists":
                table[:-1] = True
            case "DoesNotExist":
                table[-1] = True
            case "Gt" | "Lt":
                table[:-1] = [holds(requirement.operator, value, requirement.values) for value in column.values]
            case _:  # the API server refuses it
                pass
        met: Mask = table[column.upto(len(self._labels))[rows]]
        return met

    def _key(self, key: str) -> Column:
        column = self._keys.pop(key, None)
        if column is None:
            column = self._column((key,), distinct=False)
            if len(self._keys) >= _MOST_KEYS:
                del self._keys[next(iter(self._keys))]
        self._keys[key] = column
        return column

    def _column(self, keys: tuple[str, ...], *, distinct: bool) -> Column:
        column = Column(keys, distinct=distinct)
        column.fill(self._labels)
        return column
