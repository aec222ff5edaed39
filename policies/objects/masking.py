"""Objects without their secrets: what a reason, a log or a report may show of them.

Masked are everything below `data` and `stringData` of a Secret, also of one inside another object, the values of
environment variables, and both in the annotation in which kubectl keeps what was applied.
"""

from __future__ import annotations

import json
from typing import Any

MASK = "(masked)"
SECRET_FIELDS = frozenset({"data", "stringData"})


class Masking:
    """Masks values. keys: whether the names of what a Secret holds stay. hidden: the texts that were masked so far.

    Raises RecursionError for values that are nested too deeply.
    """

    def __init__(self, *, keys: bool = True) -> None:
        self._keys = keys
        self.hidden: list[str] = []

    def masked(self, value: Any, *, is_secret: bool = False) -> Any:
        """The same value with its secret parts replaced. is_secret: whether it is a Secret, whatever it says itself."""
        if isinstance(value, list):
            return [self.masked(item) for item in value]
        if not isinstance(value, dict):
            return value
        is_secret = is_secret or (value.get("kind") == "Secret" and value.get("apiVersion") == "v1")
        masked = {}
        for key, item in value.items():
            if is_secret and key in SECRET_FIELDS:
                below = self._below(item)
                masked[key] = below if self._keys else MASK
            else:
                masked[key] = self._member(key, item)
        return masked

    def _member(self, key: str, item: Any) -> Any:
        match key, item:
            case "env", dict():  # variables as a map from name to value
                return {name: self.masked(value) if isinstance(value, dict | list) else self._below(value)
                        for name, value in item.items()}  # fmt: skip
            case "env", list():  # or as a list of maps with name and value
                return [
                    {name: self._below(value) if name == "value" else self._member(name, value)
                     for name, value in entry.items()}
                    if isinstance(entry, dict)
                    else self.masked(entry)
                    for entry in item
                ]  # fmt: skip
            case "kubectl.kubernetes.io/last-applied-configuration", str():
                count = len(self.hidden)
                try:
                    masked = self.masked(json.loads(item))
                except ValueError:
                    return self._below(item)
                return json.dumps(masked) if len(self.hidden) > count else item
            case _:
                return self.masked(item)

    def _below(self, value: Any) -> Any:
        """The value with all that is below masked, but for the keys of maps."""
        if isinstance(value, dict):
            return {key: self._below(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._below(item) for item in value]
        if value is None or value == "":
            return value
        self.hidden.append(value if isinstance(value, str) else json.dumps(value, default=str))
        return MASK
