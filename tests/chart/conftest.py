from __future__ import annotations

from functools import cache

import pytest

from chart.matrix import MATRIX
from chart.rendering import Entry, render


@pytest.fixture(scope="session")
def entry() -> Entry:
    """What a set of values of the matrix renders to; each is rendered once."""
    return cache(lambda name: render(MATRIX[name]))
