"""A port that several processes of the service share: the kernel gives each of them a part of the connections."""

from __future__ import annotations

import socket
from typing import Any

from webhook.configuration.settings import SettingsError


def reserve(host: str, port: int) -> socket.socket:
    """A socket that keeps a port for the service's processes; 0 takes a free one.

    It is given no connections itself, since it does not listen.

    Raises SettingsError where the system cannot share ports, and OSError where this one cannot be had. Somebody else
    who shares it counts as well: he would be given some of the connections.
    """
    if not hasattr(socket, "SO_REUSEPORT"):
        raise SettingsError("listen.workers: this system has no SO_REUSEPORT, by which processes share a port; use 1")
    family, _, _, _, address = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]  # fmt: skip
    _bound(family, address, socket.SO_REUSEADDR).close()  # so it is nobody else's
    return _bound(family, address, socket.SO_REUSEADDR, socket.SO_REUSEPORT)


def _bound(family: socket.AddressFamily, address: Any, *options: int) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        for option in options:
            made.setsockopt(socket.SOL_SOCKET, option, 1)
        if family == socket.AF_INET6:  # as asyncio does, for which :: and 0.0.0.0 are two addresses
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
    except OSError:
        made.close()
        raise
    return made
