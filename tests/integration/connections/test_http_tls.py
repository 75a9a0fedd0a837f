"""HTTPS: the same certificates are trusted with httpx2 as without."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from plait import PlaitError, Toolbox
from plait.errors import ConnectError, SendError
from tests.servers.scripted_http import Reply, scripted_http

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


class Authority:
    """A private certificate authority."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = self._signed(name, self._key.public_key(), None)
        self.path = folder / f"{name}.pem"
        self.path.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, host: str) -> Path:
        """Write a certificate for a host, with its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._signed(host, key.public_key(), host)
        path = self._folder / f"{self._name} {host}.pem"
        path.write_bytes(
            certificate.public_bytes(serialization.Encoding.PEM)
            + key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return path

    def _signed(
        self, name: str, key: ec.EllipticCurvePublicKey, host: str | None
    ) -> x509.Certificate:
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, self._name)])
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=host is None, path_length=None), critical=True)
        )
        if host is not None:
            address = x509.IPAddress(ip_address(host)) if host[0].isdigit() else x509.DNSName(host)
            builder = builder.add_extension(x509.SubjectAlternativeName([address]), critical=False)
        return builder.sign(self._key, hashes.SHA256())


@pytest.fixture
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Authority:
    """Return an authority that this process trusts."""
    authority = Authority(tmp_path, "trusted")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))
    return authority


async def answer(reply: Reply) -> None:
    reply.json(reply.response())


def context_with(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


async def test_a_private_authority_is_trusted_by_the_environment(
    trusted: Authority,
) -> None:
    context = context_with(trusted.issue("localhost"))
    names: list[str | None] = []
    context.sni_callback = lambda _socket, name, _context: names.append(name)
    async with (
        scripted_http(answer, tls=context) as server,
        Toolbox({"server": {"url": server.url.replace("127.0.0.1", "localhost")}}) as box,
    ):
        for _ in range(3):
            assert (await box.call("server", "work")).text == "done"
        encoding = server.calls()[-1].headers["accept-encoding"]

    assert set(names) == {"localhost"}
    assert encoding == "identity"
    assert len({seen.connection for seen in server.calls()}) == 1


async def test_an_unknown_authority_is_refused(trusted: Authority, tmp_path: Path) -> None:
    del trusted
    context = context_with(Authority(tmp_path, "unknown").issue("127.0.0.1"))
    config = {"reconnect": {"max_attempts": 1}}
    async with scripted_http(answer, tls=context) as server:
        async with Toolbox({"server": {"url": server.url, **config}}) as box:
            with pytest.raises(ConnectError, match="certificate verify failed"):
                await box.call("server", "work")
        assert server.seen == []


@pytest.mark.parametrize("impostor", ["another authority", "another host"])
async def test_every_connection_is_verified_and_not_only_the_first(
    impostor: str, trusted: Authority, tmp_path: Path
) -> None:
    context = context_with(trusted.issue("127.0.0.1"))
    if impostor == "another host":
        other = trusted.issue("evil.test")
    else:
        other = Authority(tmp_path, "unknown").issue("127.0.0.1")
    headers = {"Authorization": "Bearer secret"}
    config = {"reconnect": {"max_attempts": 1}, "headers": headers}
    async with (
        scripted_http(answer, tls=context) as server,
        Toolbox({"server": {"url": server.url, **config}}) as box,
    ):
        server.handshake_headers["Connection"] = "close"
        server.list_headers["Connection"] = "close"
        await box.tools()
        context.load_cert_chain(other)
        with pytest.raises(PlaitError, match="certificate verify failed") as caught:
            await box.call("server", "work")

        assert isinstance(caught.value, SendError | ConnectError)
        assert server.calls() == []
