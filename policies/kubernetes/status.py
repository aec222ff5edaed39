"""The possible reasons of a refusal, each with its HTTP status.

Source: k8s.io/apimachinery's pkg/api/errors/errors.go.
"""

from __future__ import annotations

CODES = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413, "Invalid": 422, "InternalError": 500}
