"""Reads the certificates that a server presents, whoever signed them."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from typing import Any

from cryptography.x509 import Certificate, load_der_x509_certificate

from webhook.cluster.api.errors import UnreachableError


async def certificates(host: str, port: int, name: str, seconds: float) -> tuple[Certificate, ...]:
    """The chain that a server presents for a name, leaf first. Raises UnreachableError."""
    # No verification is needed, because nothing is sent to the server. The caller judges the certificates.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        async with asyncio.timeout(seconds):
            _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=name)
    except TimeoutError:
        raise UnreachableError(f"no answer within {seconds:.0f} s") from None
    except ssl.SSLError as error:
        raise UnreachableError(f"no TLS: {error.reason or error}") from error
    except ConnectionRefusedError as error:
        raise UnreachableError("the connection was refused") from error
    except (OSError, ValueError) as error:  # ValueError if the name is invalid
        raise UnreachableError(getattr(error, "strerror", None) or str(error) or type(error).__name__) from error
    try:
        return _chain(writer.get_extra_info("ssl_object"))
    finally:
        writer.close()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(1):
                await writer.wait_closed()
        writer.transport.abort()  # a server that sends no close_notify would leave it open


def _chain(connection: Any) -> tuple[Certificate, ...]:
    # Public since Python 3.13; the object below has had it since 3.10.
    chain = connection._sslobj.get_unverified_chain()  # noqa: SLF001 - as above
    return tuple(
        load_der_x509_certificate(ssl.PEM_cert_to_DER_cert(certificate.public_bytes())) for certificate in chain
    )
