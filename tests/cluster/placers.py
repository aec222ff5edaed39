"""Processes `cks-admission place`, of which one leads."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple

import yaml

from cluster import jsonlog
from cluster.polling import NotYet, answers
from cluster.service import COMMAND
from cluster.workspace import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from cluster.controlplane import ControlPlane
    from cluster.service import Service


class Placers(NamedTuple):
    """Processes by their log files."""

    control_plane: ControlPlane
    running: Mapping[Path, subprocess.Popen[bytes]]

    def leader(self) -> subprocess.Popen[bytes]:
        """Wait until one of them leads, and return it."""

        def leading() -> list[Path]:
            found = [log for log, one in self.running.items() if one.poll() is None and jsonlog.events(log, "leading")]
            if not found:
                raise NotYet(str([log.read_text(encoding="utf-8")[-500:] for log in self.running]))
            return found

        return self.running[self.control_plane.wait_for("a placer to lead", leading)[0]]


@contextmanager
def running(service: Service, number: int) -> Iterator[Placers]:
    """So many processes beside a service that places nothing itself, to the end of the block."""
    control_plane = service.control_plane
    with service.configured(place={"apart": True}), ExitStack() as stack:
        settings = yaml.safe_load(service.config.read_text(encoding="utf-8"))
        started = {}
        for index in range(number):
            (health,) = free_ports(["health"]).values()
            config = service.directory / f"placer-{index}.yaml"
            config.write_text(yaml.safe_dump({**settings, "health": {"host": "127.0.0.1", "port": health}}))
            log = config.with_suffix(".jsonl")
            log.unlink(missing_ok=True)
            with log.open("ab") as written:
                process = subprocess.Popen([COMMAND, "place", "--config", config], stderr=written)
            stack.callback(process.wait)
            stack.callback(process.kill)
            started[log] = process
            url = f"http://127.0.0.1:{health}/readyz"
            control_plane.wait_for("the placer to be ready", lambda url=url: answers(url, control_plane.ca_file))  # type: ignore[misc]
        yield Placers(control_plane, started)
