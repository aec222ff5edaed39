"""The reviews that the load sends: one Pod as written by a person, and as sent by the API server, for both paths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

DATA = Path(__file__).parent / "data"
POD = DATA / "pod.yaml"
SMALL = DATA / "review-small.json"
REAL = DATA / "review-real.json"
REVIEWS = {"small": SMALL, "real": REAL}
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "9", "controller": True}

# The toleration that /mutate adds to the Pod. The API server sends the Pod with it to /validate.
TOLERATION = {"key": "is_cpu_compute", "operator": "Exists", "effect": "NoSchedule"}


def body(path: str, review: Path) -> bytes:
    """The review for a path: for /mutate as it is in the file, for /validate as /mutate leaves it."""
    sent = review.read_bytes()
    return sent if path == "/mutate" else tolerated(sent)


def tolerated(sent: bytes) -> bytes:
    """A review whose Pod has been through /mutate."""
    decoded: dict[str, Any] = msgspec.json.decode(sent)
    decoded["request"]["object"]["spec"]["tolerations"].append(TOLERATION)
    return msgspec.json.encode(decoded)


def of_controller(sent: bytes) -> bytes:
    """A review whose Pod a ReplicaSet makes, as nearly all Pods are made: rules that advise people skip it."""
    decoded: dict[str, Any] = msgspec.json.decode(sent)
    decoded["request"]["object"]["metadata"]["ownerReferences"] = [OWNER]
    return msgspec.json.encode(decoded)


def with_uid(sent: bytes, uid: str) -> bytes:
    """The review with another uid of the same length, so that a mixed-up answer is noticed."""
    own: str = msgspec.json.decode(sent)["request"]["uid"]
    assert len(own) == len(uid)
    return sent.replace(own.encode(), uid.encode(), 1)
