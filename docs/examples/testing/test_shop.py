import pytest

from plait import OutcomeUnknownError, RateLimitedError, Toolbox
from plait.testing.fixtures import StartFaultProxy, StartFaultServer


def test_a_restart_goes_unnoticed(fault_server: StartFaultServer) -> None:
    server = fault_server("http", legacy_only=True)
    with Toolbox({"shop": {"url": server.url}}) as box:
        assert box.call_blocking("shop", "counter").text == "1"

        server.restart()

        assert box.call_blocking("shop", "counter").text == "1"  # a new process counts anew
        assert len(server.state.starts()) == 2


def test_nothing_is_paid_twice(fault_server: StartFaultServer) -> None:
    server = fault_server("http", die_by="drop")
    with Toolbox({"bank": {"url": server.url}}) as box, pytest.raises(OutcomeUnknownError):
        box.call_blocking("bank", "pay_and_die", {"amount": 7})

    assert server.state.ledger() == ["7"]


def test_a_busy_server_is_asked_again_after_the_time_it_names(
    fault_server: StartFaultServer,
) -> None:
    server = fault_server("http", http_status="429:1", http_status_on="call", retry_after=1)
    with Toolbox({"shop": {"url": server.url}}) as box:
        assert box.call_blocking("shop", "echo", {"text": "hi"}).attempts == 2


def test_a_server_that_stays_busy_is_an_error(fault_server: StartFaultServer) -> None:
    server = fault_server("http", http_status=429, http_status_on="call", retry_after=90)
    with Toolbox({"shop": {"url": server.url}}) as box, pytest.raises(RateLimitedError) as caught:
        box.call_blocking("shop", "echo", {"text": "hi"})

    assert caught.value.retry_after == 90


def test_a_cut_network_goes_unnoticed(
    fault_server: StartFaultServer, fault_proxy: StartFaultProxy
) -> None:
    server = fault_server("websocket")
    proxy = fault_proxy(server.port)
    with Toolbox({"shop": {"url": proxy.url_for(server.url)}}) as box:
        assert box.call_blocking("shop", "echo", {"text": "one"}).text == "one"

        proxy.cut()

        assert box.call_blocking("shop", "echo", {"text": "two"}).text == "two"
