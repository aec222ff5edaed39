"""`check` on many Deployments with the shipped packs: time, processor time and memory of all its processes."""

from __future__ import annotations

import os
import resource
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.process import program
from benchmarks.report import Figure

FEW, MANY = 1_000, 10_000
SECONDS = 15.0
GROWTH = 1.3
_LOOK_SECONDS = 0.05
_DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web-{n}, namespace: team-{team}, labels: {{app: web-{n}, tier: front}}}}
spec:
  replicas: 3
  selector:
    matchLabels: {{app: web-{n}}}
  template:
    metadata:
      labels: {{app: web-{n}, tier: front}}
    spec:
      serviceAccountName: web
      containers:
      - name: main
        image: registry.example.org/web:{n}
        ports:
        - containerPort: 8080
        env:
        - {{name: INDEX, value: "{n}"}}
        - name: POD
          valueFrom: {{fieldRef: {{fieldPath: metadata.name}}}}
        resources:
          requests: {{cpu: 500m, memory: 1Gi}}
          limits: {{cpu: 1, memory: 1Gi}}
        readinessProbe:
          httpGet: {{path: /ready, port: 8080}}
        volumeMounts:
        - {{name: data, mountPath: /data}}
      volumes:
      - name: data
        emptyDir: {{}}
"""


class Check(NamedTuple):
    """One run: wall and processor seconds, and MB of 10^6 bytes of its largest process."""

    wall: float
    processor: float
    megabytes: float


class Checks(NamedTuple):
    """The runs with few and with many objects."""

    few: Check
    many: Check


def measure(directory: Path, say: Callable[[str], None]) -> Checks:
    """A run with few objects and one with many. Raises CalledProcessError."""
    say(f"{FEW:,} and {MANY:,} Deployments")
    return Checks(*(_check(directory, count) for count in (FEW, MANY)))


def _check(directory: Path, count: int) -> Check:
    path = directory / f"deployments-{count}.yaml"
    path.write_text("---\n".join(_DEPLOYMENT.format(n=n, team=n % 100) for n in range(count)), encoding="utf-8")
    used, begun = _processor(), time.perf_counter()
    with (directory / "checked.txt").open("wb") as output:
        process = subprocess.Popen([program("cks-admission"), "check", str(path)], stdout=output)
        peak = _Peak(process.pid)
        watcher = threading.Thread(target=peak.follow)
        watcher.start()
        code = process.wait()
        watcher.join()
    if code:
        raise subprocess.CalledProcessError(code, "check")
    return Check(time.perf_counter() - begun, _processor() - used, peak.megabytes)


def _processor() -> float:
    """The processor seconds of all processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class _Peak:
    """The largest resident set of a process and its children."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.megabytes = 0.0

    def follow(self) -> None:
        """Look until the process has ended."""
        while (own := _resident(self._pid)) > 0:
            children = Path(f"/proc/{self._pid}/task/{self._pid}/children")
            pids = children.read_text(encoding="ascii").split() if children.exists() else []
            self.megabytes = max(self.megabytes, own, *map(_resident, map(int, pids)))
            time.sleep(_LOOK_SECONDS)


def _resident(pid: int) -> float:
    """The resident set in MB; 0 if the process has ended."""
    try:
        text = Path(f"/proc/{pid}/statm").read_text(encoding="ascii")
    except OSError:
        return 0.0
    return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def figures(checks: Checks) -> Iterator[Figure]:
    """Time and the growth of memory."""
    for count, check, target in ((FEW, checks.few, None), (MANY, checks.many, SECONDS)):
        note = f"({check.processor:.1f} s of processor)"
        yield Figure(f"check of {count:,} Deployments with the packs", check.wall, target, unit=" s", note=note)
    growth = checks.many.megabytes / checks.few.megabytes
    sizes = f"({checks.few.megabytes:.0f} and {checks.many.megabytes:.0f} MB)"
    yield Figure(f"memory of the largest process, to that for {FEW:,}", growth, GROWTH, note=sizes)
