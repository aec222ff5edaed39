"""Renews the certificate while the service runs, and makes its CA known."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn, Protocol

import structlog

from webhook.metrics import Metrics
from webhook.tls.certificates import Trusted, by_all

if TYPE_CHECKING:
    from webhook.cluster.replicas.replica import Replica
    from webhook.registration.registrar import Registrar

# How long a start waits for a CA that another replica may be making.
FIRST_CERTIFICATE = 10.0


class Renewed(Protocol):
    """Certificates that have to be kept up to date: those that this process serves, or makes for others."""

    @property
    def ca_bundle(self) -> bytes | None:
        """PEM with which clients trust them, empty for the system's roots; None while it is not known."""

    def start(self, trusted: Trusted = ...) -> None:
        """Use what there is. Raises CertificateError."""

    def look(self) -> None:
        """Check for what is due."""

    async def save(self) -> None:
        """Store what is due, if this process should write."""

    def install(self, trusted: Trusted = ...) -> None:
        """Use the outcome."""

    def unready(self) -> list[str]:
        """Why there is no certificate to serve; empty if there is one."""


class Upkeep:
    """Renews the certificate, has its CA registered, and serves it once its CA is trusted.

    registrar: None if nothing is registered. replica: None for a process that shares nothing with others. seconds:
    between checks while nothing happens. Each check uses the wall clock, so that after a machine slept, a renewal is
    late by at most one interval.
    """

    def __init__(
        self,
        certificates: Renewed,
        registrar: Registrar | None,
        metrics: Metrics,
        seconds: float,
        replica: Replica | None = None,
        trusted: Trusted = by_all,
    ) -> None:
        self._certificates = certificates
        self._registrar = registrar
        self._metrics = metrics
        self._seconds = seconds
        self._replica = replica
        self._trusted = trusted
        self._woken = asyncio.Event() if replica is None else replica.changed
        self._told: tuple[bytes | None, bool] = (None, False)
        self._looked = False

    @property
    def writing(self) -> bool:
        """Whether this process should write webhook configurations, and has checked the CA since then."""
        return self._looked and self._replica is not None and self._replica.writing

    async def start(self) -> None:
        """Serve the current pair, or wait a while for one. Raises CertificateError."""
        if self._replica is None or self._replica.authority is None:
            self._certificates.start()
            return
        # The CA may already exist, but may not be registered with the API server yet.
        self._certificates.start(self._trusted)
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_CERTIFICATE):
                while self._certificates.unready():
                    self._woken.clear()
                    await self.look()
                    if self._certificates.unready():
                        await self._woken.wait()

    async def run(self) -> NoReturn:
        """Check and renew until cancelled."""
        while True:
            self._woken.clear()
            try:
                await self.look()
            except Exception:  # noqa: BLE001 - whatever it is, it must not end this, or a certificate would expire unseen
                structlog.get_logger().exception("upkeep failed")
            with suppress(TimeoutError):
                async with asyncio.timeout(self._seconds):
                    await self._woken.wait()

    async def look(self) -> None:
        """Check once, and do what is due."""
        writing = self._replica is not None and self._replica.writing
        self._certificates.look()
        self._looked = writing
        try:
            await self._certificates.save()
        finally:  # serve a renewed leaf even if saving the CA failed
            self._tell()
            self._certificates.install(self._trusted)

    def _tell(self) -> None:
        """Notify the registrar of a new CA or leader."""
        self._metrics.leader.set(self._replica is not None and self._replica.leadership.leading)
        now = self._certificates.ca_bundle, self.writing
        if self._registrar is not None and now != self._told:
            self._told = now
            self._registrar.look()
