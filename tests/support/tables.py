"""Tables of cases in YAML, beside the test that reads them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml


def rows(test: str, table: str) -> pytest.MarkDecorator:
    """A table of the file that is called like a test's, as the test's parameters. `why` is the name of a row.

    A cell that is left out is null.
    """
    path = Path(test)
    listed = yaml.load(path.with_name(f"{path.stem.removeprefix('test_')}.yaml").read_bytes(), yaml.CSafeLoader)[table]
    columns = list(dict.fromkeys(column for row in listed for column in row if column != "why"))
    cells = [[row.get(column) for column in columns] for row in listed]
    return pytest.mark.parametrize(columns, cells, ids=[row.get("why") for row in listed])
