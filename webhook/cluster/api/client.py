"""Connects to a cluster: as a Pod in it, or by a kubeconfig."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakSet

from aiohttp import ClientSession, TCPConnector
from kubernetes.aio import config as kubernetes_config
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.config.incluster_config import SERVICE_TOKEN_FILENAME, InClusterConfigLoader

from webhook.cluster.api.errors import ApiError, ClusterError, UnreachableError

if TYPE_CHECKING:
    from aiohttp.connector import AddrInfoType

__all__ = ["ApiError", "ClusterError", "Connection", "UnreachableError", "connect"]

_DEFAULT = "~/.kube/config"
_MOUNTED = Path(SERVICE_TOKEN_FILENAME).parent
# Far more than this process needs to close its own sockets, for which it does not depend on the API server.
_CLOSING_SECONDS = 10.0
# As the client's own sessions: what is read ahead of an answer.
_BUFFER = 2**21


class _Pool(ApiClient):
    """Connections to the API server, at most `limit` at a time; 0 for any number."""

    def __init__(self, settings: Any, limit: int, sockets: WeakSet[socket.socket]) -> None:
        super().__init__(settings)
        self.user_agent = "cks-admission"
        self._sockets = sockets
        transport: Any = self.rest_client

        def opened(address: AddrInfoType) -> socket.socket:
            made = socket.socket(*address[:3])
            sockets.add(made)
            return made

        self._connector = TCPConnector(limit=limit, ssl=transport.ssl_context, socket_factory=opened)
        transport.pool_manager = ClientSession(connector=self._connector, trust_env=True, read_bufsize=_BUFFER)

    async def disconnect(self) -> None:
        """Close the connections without waiting for those whose answer was not read to its end."""
        closing: Any = super().close
        await closing()
        await self._connector.close()


class Connection(_Pool):
    """A cluster, for requests that are answered at once. It must be made in a running event loop.

    watches: the same cluster for lists and watches, with connections of their own. A watch keeps its connection for
    minutes, so in a common pool many watches would leave none for a Lease or a Namespace that a review waits for.
    """

    def __init__(self, settings: Any) -> None:
        sockets: WeakSet[socket.socket] = WeakSet()
        super().__init__(settings, settings.connection_pool_maxsize, sockets)
        # Both use the same settings, so that a token which one of them renews is renewed for both.
        self.watches = _Pool(settings, 0, sockets)

    async def close(self) -> None:
        """Close the connections to the API server, and wait until they are closed.

        aiohttp waits for connections in its pool and in use, but not for one whose answer was not read to its end. That
        one still waits for the API server's TLS close_notify, and would stay open if the event loop ended now.
        """
        await self.watches.disconnect()
        await self.disconnect()
        for connection in self._sockets:
            with suppress(OSError):  # most are already closed
                connection.shutdown(socket.SHUT_RDWR)  # so that nothing waits for close_notify
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSING_SECONDS):
                while any(connection.fileno() >= 0 for connection in self._sockets):  # noqa: ASYNC110 - a socket tells nobody
                    await asyncio.sleep(0.001)


async def connect(
    kubeconfig: str | None,
    in_cluster: bool,  # noqa: FBT001 - a setting, as it is
    service_account: str = "",
) -> Connection:
    """A connection with a kubeconfig (None: $KUBECONFIG or ~/.kube/config), or as the Pod in which this process runs.

    service_account: in a Pod, the directory with its token and ca.crt; empty for Kubernetes' usual one. The token is
    read again every minute, because Kubernetes renews it.

    It sends nothing. Raises ClusterError if the credentials cannot be read.
    """
    settings: Any = Configuration()
    holder = service_account or "the service account"
    if in_cluster:
        token, loader = Path(service_account or _MOUNTED) / "token", cast("Any", InClusterConfigLoader)
        try:
            loader(str(token), str(token.with_name("ca.crt"))).load_and_set(settings)
        except (kubernetes_config.ConfigException, OSError) as error:
            where = "cluster.serviceAccount has them"
            place = f" and CA certificate at {service_account}, where {where}" if service_account else ""
            raise ClusterError(
                f"this process does not seem to run in a Pod with a service account: {str(error).rstrip('.')}; "
                f"name a kubeconfig, or let the Pod mount its service account's token{place}"
            ) from error
    else:
        holder = _existing(kubeconfig)
        await _use_kubeconfig(settings, holder)
    try:
        return Connection(settings)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise ClusterError(
            f"the certificates for {settings.host} cannot be used: {error}; they are named or held by {holder}"
        ) from error


def _existing(kubeconfig: str | None) -> str:
    """The kubeconfig that counts. Like $PATH, it may be several files, of which one has to exist."""
    where = kubeconfig or os.environ.get("KUBECONFIG") or str(Path(_DEFAULT).expanduser())
    if not any(Path(part).expanduser().exists() for part in where.split(os.pathsep) if part):
        raise ClusterError(f"there is no kubeconfig at {where}; name another one, or set up access with kubectl first")
    return where


async def _use_kubeconfig(settings: Any, where: str) -> None:
    loader: Any = kubernetes_config.load_kube_config
    try:
        # Not persisted: tokens that an identity provider renews do not belong into the user's file.
        loaded = await loader(config_file=where, client_configuration=settings, persist_config=False)
    except Exception as error:
        # For invalid files the client raises errors of many types (YAML, TypeError, KeyError, ...).
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise ClusterError(
            f"the kubeconfig {where} cannot be used: {reason}; `kubectl --kubeconfig {where} version` should work first"
        ) from error
    context = loaded.current_context["name"]
    if "host" not in vars(loaded):
        raise ClusterError(f"context {context} of the kubeconfig {where} names a cluster without a server")
    user = loaded._user  # noqa: SLF001 - as the client's own refresh_token does
    if user is None or "exec" not in user:
        return
    if not settings.api_key and not settings.cert_file:
        raise ClusterError(
            f"context {context} of the kubeconfig {where} gets its credentials from {user['exec']['command']}, which "
            "gave none; that command has to work here, or take a kubeconfig with a token or a certificate"
        )
    if hasattr(loaded, "exec_plugin_expiry"):

        async def renew(current: Any) -> None:
            await loaded.load_from_exec_plugin()  # it does nothing before the token expires
            current.api_key["BearerToken"] = loaded.token

        settings.refresh_api_key_hook = renew
