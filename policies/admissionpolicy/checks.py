"""Checks that many fields share: a text that is needed, a word of an enumeration, a name in a format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from policies.admissionpolicy.problem import Spot, invalid, required, show, unsupported
from policies.kubernetes.label import label_key, label_value
from policies.kubernetes.name import Format
from policies.kubernetes.spelling import did_you_mean

Values = Mapping[str, Any]
NAME_HINT = "use lower case letters, digits, '-' and '.'"


def check_needed(value: Values, name: str, spot: Spot, hint: str) -> bool:
    """Whether a text is there; noted if not."""
    if value.get(name):
        return True
    spot.child(name).fault(required(), hint)
    return False


def check_choice(value: Values, name: str, allowed: Sequence[str], spot: Spot) -> None:
    """A word of an enumeration, which may be absent: then it has a default."""
    if name in value and value[name] not in allowed:
        spot.child(name).fault(unsupported(value[name], allowed), nearest_choice(value[name], allowed))


def check_format(text: str, check: Format, spot: Spot, hint: str) -> None:
    """A text in a format."""
    for words in check(text):
        spot.fault(invalid(text, words), hint)


def nearest_choice(word: str, allowed: Sequence[str] | Mapping[str, str]) -> str:
    """A hint for a word that is none of an enumeration."""
    return did_you_mean(word, allowed, f"write {' or '.join(allowed)}")


def check_labels(labels: Mapping[str, str], spot: Spot) -> None:
    """Labels, or the matchLabels of a selector. The API server names no key."""
    path = show(spot.path)
    for key, value in labels.items():
        for words in label_key(key):
            spot.child(key).fault(invalid(key, words), "write a label key, as example.org/team", path=path, key=True)
        for words in label_value(value):
            spot.child(key).fault(invalid(value, words), "write a label value of at most 63 characters", path=path)
