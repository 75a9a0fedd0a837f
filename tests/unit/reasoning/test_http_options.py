"""An address that others can reach is served only with a token and under names."""

from __future__ import annotations

import pytest

from plait.errors import ConfigError
from plait.reasoning.serving.http_server import http_options_from_text


@pytest.mark.parametrize("address", ["0.0.0.0:80", "[::]:80", "192.0.2.7:80", "example.org:80"])
def test_an_open_address_needs_a_token_and_a_name(address: str) -> None:
    with pytest.raises(ConfigError, match="PLAIT_REASONING_TOKEN"):
        http_options_from_text(address, allowed_hosts=["example.org"])
    with pytest.raises(ConfigError, match="--allowed-host"):
        http_options_from_text(address, token="t")

    assert http_options_from_text(address, token="t", allowed_hosts=["example.org"]).port == 80
    named = http_options_from_text(address, tokens={"ann": "t"}, allowed_hosts=["example.org"])
    assert named.tokens == {"ann": "t"}


@pytest.mark.parametrize("address", ["80", ":80", "127.0.0.1:80", "[::1]:80", "localhost:80"])
def test_an_address_of_this_machine_needs_neither(address: str) -> None:
    assert http_options_from_text(address).token is None


@pytest.mark.parametrize("address", ["", "host", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="HOST:PORT"):
        http_options_from_text(address)
