"""The section `listen` of the configuration: the TLS port, and the room for calls."""

from __future__ import annotations

from pydantic import Field

from webhook.configuration.fields import Model, Port


class Listen(Model):
    """Where the API server reaches the service."""

    host: str = Field("0.0.0.0", description="Address to listen on.")  # noqa: S104 - a Pod is reached from other hosts
    port: Port = Field(9443, description="TLS port; 0 takes a free one.")
    max_in_flight: int = Field(
        512,
        ge=1,
        description="Reviews that are answered at once; more get 503 with Retry-After, which the API server obeys.",
    )
    max_bytes_in_flight: int = Field(
        64 * 1024 * 1024,
        ge=16 * 1024 * 1024,
        description="Bytes of bodies that are held at once; more get 503, too.",
    )
    body_seconds: float = Field(
        3.0, gt=0, le=30, description="How long a body may take to arrive, within the time-out of its caller."
    )
    max_connections: int = Field(
        1024, ge=1, description="Connections at once; beyond, one that stands around is closed for a new one."
    )
    max_connections_per_address: int = Field(
        768,
        ge=1,
        description="The same for one address, without effect above maxConnections; all API servers may call from one.",
    )
    connection_seconds: float = Field(
        60.0, ge=0, description="How long a connection stays open, give or take a quarter; 0 for as long as it is used."
    )
    drain_seconds: float = Field(
        5.0, ge=0, le=600, description="After SIGTERM, how long the port stays open while readiness already says no."
    )
    grace_seconds: float = Field(
        20.0, ge=0, le=600, description="After that, how long requests in flight may take to finish."
    )
