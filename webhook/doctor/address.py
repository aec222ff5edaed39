"""Checks the address that the API server calls, the Service or the URL, and its ready replicas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import urlsplit

from policies.engine.request import JsonObject, mapping
from webhook.configuration.settings import Settings
from webhook.doctor.diagnosis import Diagnosis, Read, Unread, count, unseen
from webhook.doctor.observation import Endpoint

CHECK: Final = "address"
_HTTPS: Final = 443
_MOST: Final = 16  # replicas to connect to


def dialled(settings: Settings) -> Endpoint:
    """The address that the API server calls according to the settings."""
    chosen = settings.registration
    if not chosen.url:
        name = f"{chosen.service}.{settings.cluster.namespace}.svc"
        return Endpoint(name, name, chosen.service_port)
    return _of_url(chosen.url)


def dialled_by(client: JsonObject) -> str:
    """The name that the API server calls for an entry's clientConfig; empty if it has neither URL nor Service."""
    if service := mapping(client, "service"):
        return f"{service.get('name')}.{service.get('namespace')}.svc"
    return _of_url(str(client.get("url", ""))).name


def targets(settings: Settings, service: Read[JsonObject | None], slices: Read[Sequence[JsonObject]]) -> list[Endpoint]:
    """Addresses to check: the one that is called, and each known replica behind a Service."""
    first = dialled(settings)
    if settings.registration.url or isinstance(service, Unread) or service is None or isinstance(slices, Unread):
        return [first]
    port = _port(service, first.port)
    endpoints = [] if port is None else _endpoints(slices, port)
    return [first, *(Endpoint(first.name, host, number) for host, number in endpoints[:_MOST])]


def check(
    settings: Settings, service: Read[JsonObject | None], slices: Read[Sequence[JsonObject]]
) -> Iterator[Diagnosis]:
    """Whether the Service exists, has the right port, and has ready replicas."""
    if settings.registration.url:
        return
    chosen, namespace = settings.registration, settings.cluster.namespace
    where = f"Service {namespace}/{chosen.service}"
    if isinstance(service, Unread):
        yield unseen(CHECK, where, service)
        return
    if service is None:
        remedy = "create it, or correct registration.service and cluster.namespace"
        yield Diagnosis(
            CHECK, "problem", where, "it does not exist, so the API server cannot reach the service", remedy
        )
        return
    port = _port(service, chosen.service_port)
    if port is None:
        ports = ", ".join(str(entry.get("port")) for entry in mapping(service, "spec").get("ports") or ())
        remedy = "set registration.servicePort to a port of the Service, or add this port to the Service"
        text = f"it has no port {chosen.service_port}, " + (f"only {ports}" if ports else "nor any other")
        yield Diagnosis(CHECK, "problem", where, text, remedy)
    elif isinstance(slices, Unread):
        yield unseen(CHECK, where, slices)
    elif ready := _endpoints(slices, port):
        yield Diagnosis(CHECK, "ok", where, f"port {chosen.service_port} leads to {count(len(ready), 'ready replica')}")
    else:
        remedy = f"see kubectl get pods -n {namespace}; /readyz of each Pod says why it is not ready"
        yield Diagnosis(
            CHECK, "problem", where, "it has no ready endpoints, so the API server cannot reach the service", remedy
        )


def _of_url(url: str) -> Endpoint:
    parts = urlsplit(url)
    host = parts.hostname or ""
    return Endpoint(host, host, parts.port or _HTTPS)


def _port(service: JsonObject, number: int) -> JsonObject | None:
    ports = mapping(service, "spec").get("ports") or ()
    return next((port for port in ports if port.get("port") == number), None)


def _endpoints(slices: Sequence[JsonObject], port: JsonObject) -> list[tuple[str, int]]:
    """Address and port of each replica that is ready. A port of a slice has the name of the Service's."""
    endpoints: dict[tuple[str, int], None] = {}
    for endpoint_slice in slices:
        numbers = [
            p["port"] for p in endpoint_slice.get("ports") or () if (p.get("name") or "") == (port.get("name") or "")
        ]
        for endpoint in endpoint_slice.get("endpoints") or ():
            # An absent value means ready: discovery.k8s.io/v1 EndpointConditions.
            if mapping(endpoint, "conditions").get("ready") is not False:
                endpoints |= dict.fromkeys(
                    (address, number) for address in endpoint["addresses"][:1] for number in numbers
                )
    return list(endpoints)
