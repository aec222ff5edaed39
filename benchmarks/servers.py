"""How the service and the echo are started, with one certificate for both."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.process import Server, answers, free_port, listens, program, running, wait_until
from webhook.configuration.rulesettings import PacksSettings


class Listening(NamedTuple):
    """A server, and the port at which it answers reviews. health: that of the service's metrics."""

    server: Server
    port: int
    health: int = 0


def issue_certificate(directory: Path) -> None:
    """Make an EC P-256 pair, `tls.crt` and `tls.key`, in a directory."""
    command = [program("cks-admission"), "certs", "issue", "--directory", str(directory), "--name", "127.0.0.1"]
    subprocess.run(command, check=True, capture_output=True)


def configuration(file: Path, **settings: Any) -> Path:
    """Write a configuration without packs; its path."""
    packs = dict.fromkeys(PacksSettings.names(), "off")
    file.write_text(json.dumps({"packs": packs, **settings}), encoding="utf-8")
    return file


@contextmanager
def service(directory: Path, *options: str, cores: set[int] | None = None) -> Iterator[Listening]:
    """The service with the certificate in a directory, when /readyz says that it is ready.

    Without a configuration among the options it has no packs, so that rows with policies name all that they have.
    """
    port, health = free_port(), free_port()
    if "--config" not in options:
        options = (*options, "--config", str(configuration(directory / "no-packs.yaml")))
    command = [
        program("cks-admission"), "serve", "--host", "127.0.0.1", "--port", str(port),
        "--health-host", "127.0.0.1", "--health-port", str(health), "--log-format", "json",
        "--tls-cert", str(directory / "tls.crt"), "--tls-key", str(directory / "tls.key"), *options,
    ]  # fmt: skip
    with running(command, directory / f"service-{port}.log", cores) as server:
        wait_until(server, lambda: answers(health))
        yield Listening(server, port, health)


@contextmanager
def echo(directory: Path, cores: set[int] | None = None, port: int = 0) -> Iterator[Listening]:
    """The echo, with the same certificate. port: a free one if none is given."""
    port = port or free_port()
    command = [
        sys.executable,
        "-m",
        "benchmarks.echo",
        str(directory / "tls.crt"),
        str(directory / "tls.key"),
        str(port),
    ]
    with running(command, directory / "echo.log", cores) as server:
        wait_until(server, lambda: listens(port))
        yield Listening(server, port)
