"""Checks for many fields: required strings, values of enumerations, formats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from policies.admissionpolicy.documents.problem import Spot, invalid, required, show, unsupported
from policies.kubernetes.name import Format, label_key, label_value
from policies.kubernetes.spelling import did_you_mean

Values = Mapping[str, Any]
NAME_HINT = "use lower case letters, digits, '-' and '.'"


def check_needed(value: Values, name: str, spot: Spot, hint: str) -> bool:
    """Whether a required string is not empty; note it otherwise."""
    if value.get(name):
        return True
    spot.child(name).fault(required(), hint)
    return False


def check_choice(value: Values, name: str, allowed: Sequence[str], spot: Spot) -> None:
    """Note a value that is not in an enumeration. An absent value is allowed, because it has a default."""
    if name in value:
        check_word(value[name], allowed, spot.child(name))


def check_word(word: str, allowed: Sequence[str], spot: Spot) -> None:
    """Note a word that is not in an enumeration."""
    if word not in allowed:
        hint = did_you_mean(word, allowed, f"write {' or '.join(allowed)}")
        spot.fault(unsupported(word, allowed), hint)


def check_format(text: str, check: Format, spot: Spot, hint: str) -> None:
    """Note a string that does not have a format."""
    for words in check(text):
        spot.fault(invalid(text, words), hint)


def check_labels(labels: Mapping[str, str], spot: Spot) -> None:
    """Note invalid labels, or matchLabels of a selector. The API server's messages do not contain the key."""
    path = show(spot.path)
    for key, value in labels.items():
        for words in label_key(key):
            spot.child(key).fault(invalid(key, words), "write a label key, as example.org/team", path=path, key=True)
        for words in label_value(value):
            spot.child(key).fault(invalid(value, words), "write a label value of at most 63 characters", path=path)
