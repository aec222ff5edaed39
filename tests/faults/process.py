"""The real process, `cks-admission serve`, in whatever surroundings a fault needs."""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self

import yaml
from cluster import jsonlog
from cluster.polling import PATIENCE, NotYet, wait_for
from cluster.service import COMMAND
from cluster.workspace import free_ports
from support.packmodes import OFF
from support.service.reviews import answer_of

from faults.documents import Review

_HOST = "127.0.0.1"
_END_SECONDS = 20.0
_ASK_SECONDS = 30.0


class Process:
    """One service, with what it started; it ends, by force, with the block it is used in.

    environment: variables besides this process'. log: where it logs to, a file in the directory by default; only from
    that one are `events` read. settings: sections of the configuration that differ from quick defaults.
    """

    def __init__(
        self, directory: Path, *, environment: Mapping[str, str] | None = None, log: Path | None = None, **settings: Any
    ) -> None:
        self.port, self.health = free_ports(["admission", "health"]).values()
        self.certs = directory / "certs"
        self.log = log or directory / "log.jsonl"
        self.config = directory / "cks.yaml"
        kept = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
        self._environment = {**kept, **(environment or {})}
        quick: dict[str, Any] = {
            "listen": {"host": _HOST, "port": self.port, "drainSeconds": 0.5},
            "health": {"host": _HOST, "port": self.health},
            "tls": {"directory": str(self.certs), "checkSeconds": 1.0},
            "registration": {"url": f"https://{_HOST}:{self.port}", "timeoutSeconds": 10},
            "packs": dict(OFF),
            "log": {"format": "json"},
        }
        merged = {section: {**quick.get(section, {}), **settings.get(section, {})} for section in {**quick, **settings}}
        self.config.write_text(yaml.safe_dump(merged), encoding="utf-8")
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Start it; `wait_until_ready` comes next, or what should happen before."""
        with self._output() as output:
            command = [str(COMMAND), "serve", "--config", str(self.config)]
            self._child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=self._environment,
                start_new_session=True,
            )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        """Kill it and its children, which are its process group."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.child.wait(_END_SECONDS)

    @property
    def child(self) -> subprocess.Popen[bytes]:
        """The process, once it has been started."""
        assert self._child is not None
        return self._child

    @property
    def pid(self) -> int:
        """Its id, which its children have as that of their group."""
        return self.child.pid

    @property
    def context(self) -> ssl.SSLContext:
        """Trust in the CA of its own."""
        return ssl.create_default_context(cafile=self.certs / "ca-bundle.crt")

    def wait_until_ready(self) -> None:
        """Wait until it says that it is ready. Raises GaveUpError with what it says instead."""

        def ready() -> bool:
            if self.child.poll() is not None:
                raise AssertionError(f"the service ended with {self.child.returncode}: {self._tail()}")
            if not self.readiness().startswith("ok"):
                raise NotYet(f"{self.readiness()} {self._tail()}")
            return True

        wait_for("the service to be ready", ready)

    def readiness(self) -> str:
        """What /readyz says; empty where nobody answers."""
        return self.get("/readyz")

    def get(self, path: str) -> str:
        """What the health port answers, whatever the status; empty where nobody answers."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"http://{_HOST}:{self.health}{path}", timeout=5) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                return str(error.read().decode())
        except OSError:
            return ""

    def ask(self, review: Review, seconds: float = _ASK_SECONDS) -> dict[str, Any]:
        """The answer to a review within seconds, on a connection of its own. Raises OSError."""
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self.context)
        )
        url = f"https://localhost:{self.port}{review.path}"
        request = urllib.request.Request(url, review.body, {"Content-Type": "application/json"})
        with opener.open(request, timeout=seconds) as answer:
            return answer_of(answer.read())

    def refuses(self, review: Review) -> bool:
        """Whether a review is refused by now."""
        return self.ask(review)["allowed"] is False

    def metric(self, name: str) -> float:
        """The sum of a metric's samples whose line begins so."""
        lines = self.get("/metrics").splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))

    def events(self, name: str) -> list[dict[str, Any]]:
        """What it logged under a name."""
        return jsonlog.events(self.log, name)

    def unregister(self) -> None:
        """Remove its webhook configurations. Raises CalledProcessError."""
        command = [str(COMMAND), "unregister", "--config", str(self.config)]
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)

    def entries(self) -> list[dict[str, Any]]:
        """All that it logged."""
        return jsonlog.entries(self.log)

    def _output(self) -> IO[bytes]:
        return self.log.open("ab" if self.log.is_file() or not self.log.exists() else "wb", buffering=0)

    def _tail(self) -> str:
        return self.log.read_text(encoding="utf-8")[-1500:] if self.log.is_file() else ""
