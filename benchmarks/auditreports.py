"""The room that reports take in etcd, against the objects that they are about, and what writing them costs."""

from __future__ import annotations

import json
import re
import urllib.request
from base64 import b64decode, b64encode
from collections.abc import Iterator
from typing import Any, NamedTuple

from cluster import crds
from cluster.auditreports import OPEN_REPORTS, definitions
from cluster.controlplane import ControlPlane

from benchmarks.load import LoadError
from benchmarks.process import ended

_OBJECT = re.compile(rb"/registry/(?!openreports\.io/|events/).*/bench-(small|large)/o-\d+")
_REPORT = re.compile(rb"/registry/openreports\.io/")
_PAGE = 200


class Writing(NamedTuple):
    """An audit that writes reports: what its line says of them, MB of 10^6 bytes, and seconds."""

    reports: dict[str, int]
    memory: float
    seconds: float


class Reports(NamedTuple):
    """The audits of few and of all objects, one more of all, and what is in etcd then."""

    small: Writing
    first: Writing
    second: Writing
    of_objects: int
    of_reports: int


def measure(cluster: ControlPlane, command: list[str]) -> Reports:
    """Let reports be written, twice. Raises LoadError if the second audit writes any."""
    crds.install(cluster, *definitions(OPEN_REPORTS))
    small = _written([*command, "-n", "bench-small"])
    cluster.objects.delete_all(f"reports.{OPEN_REPORTS}", namespace="bench-small")
    every = [*command, "-n", "bench-small", "-n", "bench-large"]
    first, second = _written(every), _written(every)
    if second.reports["written"] or second.reports["unchanged"] != first.reports["written"]:
        raise LoadError(f"a second audit of the same objects is not silent: {first.reports}, {second.reports}")
    sizes = list(_entries(cluster))
    rooms = [sum(size for key, size in sizes if pattern.match(key)) for pattern in (_OBJECT, _REPORT)]
    return Reports(small, first, second, rooms[0], rooms[1])


def _written(command: list[str]) -> Writing:
    run = ended([*command, "-o", "reports"])
    if run.code:
        raise LoadError(f"the audit that writes reports ended with {run.code}: {run.output!r}")
    return Writing(json.loads(run.output)["reports"], run.memory, run.seconds)


def _entries(cluster: ControlPlane) -> Iterator[tuple[bytes, int]]:
    """All keys of the API server in etcd, each with its bytes, by etcd's own API as JSON."""
    (address,) = (
        option.partition("=")[2]
        for option in cluster.component("etcd").command
        if option.startswith("--listen-client-urls=")
    )
    key, end = b"/registry/", b"/registry0"
    while True:
        asked = {"key": b64encode(key).decode(), "range_end": b64encode(end).decode(), "limit": _PAGE}
        request = urllib.request.Request(f"{address}/v3/kv/range", json.dumps(asked).encode())  # noqa: S310 - etcd's
        with urllib.request.urlopen(request) as answer:  # noqa: S310 - as above
            page: dict[str, Any] = json.load(answer)
        for entry in page.get("kvs", ()):
            key = b64decode(entry["key"])
            yield key, len(key) + len(b64decode(entry.get("value", "")))
        if not page.get("more"):
            return
        key += b"\0"
