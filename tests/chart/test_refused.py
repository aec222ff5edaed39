"""Values that cannot work are refused before anything is installed, with a text that helps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from chart.rendering import ChartError, template

_REFUSED: dict[str, dict[str, dict[str, Any]]] = yaml.safe_load(
    (Path(__file__).parent / "refused.yaml").read_text(encoding="utf-8")
)


def _said(case: dict[str, Any]) -> str:
    with pytest.raises(ChartError) as caught:
        template(case["values"])
    return str(caught.value)


@pytest.mark.parametrize("name", _REFUSED["schema"])
def test_a_value_of_a_wrong_form_is_refused(name: str) -> None:
    """The schema refuses it, and says where it stands and what was expected."""
    case = _REFUSED["schema"][name]

    assert case["says"] in _said(case)


@pytest.mark.parametrize("name", _REFUSED["templates"])
def test_values_that_contradict_each_other_are_refused(name: str) -> None:
    """The chart says what was found, and what to set."""
    case = _REFUSED["templates"][name]

    # Helm puts the place in the template before it, and advice of its own below it.
    assert _said(case).splitlines()[0].endswith(f": {case['says']}")
