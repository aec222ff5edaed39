"""The possible reasons of a refusal, each with its HTTP code.

Source: k8s.io/apimachinery's pkg/api/errors/errors.go.
"""

from __future__ import annotations

from msgspec import Struct

CODES = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413, "Invalid": 422, "InternalError": 500}


class Status(Struct, frozen=True):
    """The reason of a refusal, and the HTTP code of the answer: the reason's own nearly always."""

    reason: str
    code: int


FORBIDDEN = Status("Forbidden", CODES["Forbidden"])
