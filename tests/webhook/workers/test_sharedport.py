"""The port that workers share: kept for them, and nobody else's."""

import socket
from select import select

import pytest
from support.patience import PATIENCE

from webhook.configuration.settings import SettingsError
from webhook.workers.supervisor import reserve

_HOST = "127.0.0.1"


def _listening(port: int, *options: int) -> socket.socket:
    made = socket.socket()
    for option in options:
        made.setsockopt(socket.SOL_SOCKET, option, 1)
    made.bind((_HOST, port))
    made.listen()
    return made


def test_calls_go_to_workers() -> None:
    """The reserved socket takes no connection: without a worker there is none, with some each may get it."""
    with reserve(_HOST, 0) as reserved:
        address = reserved.getsockname()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)
        with (
            _listening(address[1], socket.SO_REUSEPORT) as one,
            _listening(address[1], socket.SO_REUSEPORT) as other,
            socket.create_connection(address),
        ):
            called, _, _ = select([one, other], [], [], PATIENCE)

    assert len(called) == 1


@pytest.mark.parametrize("options", [[], [socket.SO_REUSEPORT]], ids=["alone", "shared"])
def test_somebody_elses_port_is_refused(options: list[int]) -> None:
    """Not even one whose owner would share it is taken: he would get some of the calls, and we some of his."""
    with _listening(0, *options) as taken, pytest.raises(OSError, match="already in use"):
        reserve(_HOST, taken.getsockname()[1])


def test_a_port_is_free_again_afterwards() -> None:
    """Whoever comes next can have it."""
    with reserve(_HOST, 0) as reserved:
        port = reserved.getsockname()[1]
    with reserve(_HOST, port) as again:
        assert again.getsockname() == (_HOST, port)


def test_a_system_that_shares_no_ports_is_told() -> None:
    """The text names the setting and the way out."""
    with pytest.MonkeyPatch.context() as system:
        system.delattr(socket, "SO_REUSEPORT")
        with pytest.raises(SettingsError) as error:
            reserve(_HOST, 0)

    assert str(error.value) == "listen.workers: this system has no SO_REUSEPORT, by which processes share a port; use 1"
