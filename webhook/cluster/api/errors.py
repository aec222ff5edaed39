"""What can go wrong between the service and the API server.

    ClusterError            the one to catch
    ├── UnreachableError    no answer: no connection, no valid certificate, or nothing in time
    └── ApiError            an answer that refuses: an HTTP status and the API server's own words

Messages are for people: what was tried, where, what came of it, and what to do about it where that is known.
"""

from __future__ import annotations


class ClusterError(Exception):
    """The cluster cannot be reached, or did not do what it was asked.

    status: the HTTP status of the API server's answer; 0 without an answer. retry_after: the seconds that the API
    server asks to wait, or 0.
    """

    status = 0
    retry_after = 0.0

    def lacking(self, who: str) -> str:
        """The text, with the right to grant if one is missing. who: such as `a Role must allow X to get pods`."""
        return f"{self}; {who}" if self.status == 403 else str(self)


class UnreachableError(ClusterError):
    """The API server did not answer, or the answer was incomplete."""


class ApiError(ClusterError):
    """The API server answered with an error.

    more: where a list goes on whose continue token has expired; empty if it must begin again.
    """

    def __init__(self, message: str, status: int, retry_after: float = 0.0, more: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after
        self.more = more

    @property
    def leaving(self) -> bool:
        """Whether what was asked for, or its Namespace, is gone, or the Namespace is going with all that is in it."""
        return self.status == 404 or (self.status == 403 and "being terminated" in str(self))
