"""OAuth settings of a server, typed and validated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol
from urllib.parse import urlsplit
from weakref import WeakSet

from plait._support.durations import checked_seconds
from plait.client.config.raw_value import Key, KeyTable, RawValue, as_mapping, keys_with, read_table
from plait.client.config.urls import LOOPBACK
from plait.client.config.value_types import one_of, read_count, read_object, read_text, read_texts
from plait.errors import ConfigError

Grant = Literal["authorization_code", "client_credentials"]

CLIENT_AUTH_METHODS: Final = ("client_secret_basic", "client_secret_post", "none")
STORE_NAMES: Final = ("file", "keyring", "memory")
_MAX_PORT_NUMBER: Final = 65535
"""The highest port of TCP."""
_REDIRECT_METHODS: Final = ("redirect_to_authorization", "redirectToAuthorization")
"""Names of the method of a provider object that redirects a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuth:
    """How to sign in; by default a person signs in, and the client registers itself.

    Raises:
        ConfigError: The settings contradict each other.
    """

    grant: Grant = "authorization_code"
    """A person signs in in a browser, or the program has its own credentials."""
    client_id: str | None = None
    """The ID of a client that was registered by hand; `None` registers one."""
    client_secret: str | None = field(default=None, repr=False)
    scopes: Sequence[str] = ()
    """Scopes to request, besides those the server names."""
    client_metadata_url: str | None = None
    """The `https` URL of a client metadata document, instead of registration."""
    client_name: str = "plait"
    """The name that people see when they sign in."""
    client_metadata: Mapping[str, Any] | None = None
    """Further client metadata for the registration, with the protocol's keys."""
    redirect_port: int | None = None
    """The local port to which the browser returns; `None` uses a free one."""
    redirect_uri: str | None = None
    """The full redirect URI, if a port is not enough."""
    issuer: str | None = None
    """The only authorization server to use; by default the one the server names."""
    private_key: str | None = field(default=None, repr=False)
    """A PEM key that signs the client's requests, instead of a secret."""
    private_key_file: str | None = None
    key_id: str | None = None
    """The ID of the key, if the client has several."""
    algorithm: str = "RS256"
    token_endpoint_auth_method: str | None = None
    """How a client with a secret authenticates."""
    user: str = ""
    """The user of the login, if several people share an account."""
    store: Any = "file"
    """Where tokens are stored: `file`, `keyring`, `memory`, or a `TokenStore`."""
    on_redirect: Callable[[str], Any] | None = field(default=None, repr=False)
    """Called with the authorization URL instead of opening a browser; sync or async."""
    on_callback: Callable[[], Any] | None = field(default=None, repr=False)
    """Returns the redirect URL with the code, or the code; sync or async."""
    interactive: bool = False
    """Whether a browser may be opened for a login; otherwise connecting fails at once."""
    wait_seconds: float = 300.0
    """Time for a person to sign in."""

    def __post_init__(self) -> None:
        checked_seconds(self.wait_seconds, "oauth: wait_seconds")
        contradiction = _contradiction(self)
        if contradiction is not None:
            raise ConfigError(f"oauth: {contradiction}")

    @property
    def may_ask(self) -> bool:
        """Whether a person can be prompted to sign in."""
        return self.grant == "authorization_code" and (
            self.interactive or self.on_redirect is not None
        )

    @property
    def scope(self) -> str | None:
        """The scopes as the protocol writes them."""
        return " ".join(self.scopes) or None


class SignInListener(Protocol):
    """Waits for a login."""

    def signed_in(self, provider: object) -> None:
        """Take notice that a person has signed in with a provider object."""


sign_in_listeners: WeakSet[SignInListener] = WeakSet()
"""The connections that a person may have to sign in for."""


def may_ask_person(auth: object) -> bool:
    """Return whether signing in may involve a person, by the settings or a provider object."""
    if isinstance(auth, OAuth):
        return auth.may_ask
    return any(hasattr(auth, name) for name in _REDIRECT_METHODS)


def person_seconds(auth: object) -> float:
    """Return the extra connect timeout for a person who signs in."""
    return auth.wait_seconds if isinstance(auth, OAuth) and auth.may_ask else 0.0


def _contradiction(settings: OAuth) -> str | None:
    keys = [key for key in (settings.private_key, settings.private_key_file) if key]
    secret, own = settings.client_secret, settings.grant == "client_credentials"
    unseen = settings.on_callback is not None and settings.on_redirect is None
    port, issuer = settings.redirect_port, urlsplit(settings.issuer or "https://")
    document = urlsplit(settings.client_metadata_url or "https://host/path")
    redirect = urlsplit(settings.redirect_uri or "http://127.0.0.1:1")
    reachable = settings.on_callback is not None or (
        redirect.scheme == "http" and redirect.hostname in LOOPBACK and bool(redirect.port)
    )
    local = "http://127.0.0.1:PORT/…"
    contradictions = {
        "client_credentials needs a client_id": own and not settings.client_id,
        "client_credentials needs a client_secret or a private_key": own and not (secret or keys),
        "set a client_secret or a private_key, not both": own and secret and keys,
        "a private_key is only used by client_credentials": keys and not own,
        "set a private_key or a private_key_file, not both": len(keys) > 1,
        "a client_secret needs its client_id": secret and not settings.client_id,
        "on_callback needs on_redirect, which shows the authorization URL": unseen,
        f"redirect_port must be from 0 to {_MAX_PORT_NUMBER}": port
        and not 0 <= port <= _MAX_PORT_NUMBER,
        "issuer must be the http(s) address of the authorization server": (
            issuer.scheme not in {"http", "https"}
        ),
        "client_metadata_url must be an https address with a path": (
            document.scheme != "https" or document.path in {"", "/"}
        ),
        f"redirect_uri must be {local}, unless on_callback takes the answer": not reachable,
    }
    return next((text for text, is_true in contradictions.items() if is_true), None)


def _read_scopes(raw: RawValue) -> tuple[str, ...]:
    """Read scopes: a list, or one string with spaces between them."""
    return tuple(raw.text().split()) if isinstance(raw.value, str) else read_texts(raw)


def _read_store(raw: RawValue) -> object:
    """Read the name of a token store, or take an object that is one."""
    return one_of(*STORE_NAMES)(raw) if isinstance(raw.value, str) else read_object(raw)


OAUTH_KEYS = KeyTable(
    keys=(
        Key("grant", one_of("authorization_code", "client_credentials"), aliases=("grant_type",)),
        *keys_with(read_text, "client_id", "client_secret", "client_metadata_url", "client_name"),
        *keys_with(read_text, "redirect_uri", "issuer", "user"),
        *keys_with(read_text, "private_key", "private_key_file", "key_id", "algorithm"),
        Key("scopes", _read_scopes, aliases=("scope",)),
        Key("redirect_port", read_count),
        Key("token_endpoint_auth_method", one_of(*CLIENT_AUTH_METHODS)),
        Key("store", _read_store),
    ),
    noun="oauth",
    ignored=("type",),
)
"""The keys of an `auth` object of type `oauth`."""


def read_auth(raw: RawValue) -> object:
    """Read the authentication of a client: the word `oauth`, its settings, or an object."""
    if isinstance(raw.value, str):
        if raw.text() != "oauth":
            hint = 'write "oauth"; a fixed key goes into "headers"'
            raw.reject("unknown_value", "is not a way to sign in", hint)
        return OAuth()
    entries = as_mapping(raw.value)
    if not entries:
        return read_object(raw)
    if entries.get("type", "oauth") != "oauth":
        raw.child("type", entries["type"]).reject(
            "unknown_value", "is not a way to sign in", 'write "oauth"'
        )
    values = read_table(raw, OAUTH_KEYS, whole=True)
    if file := values.get("private_key_file"):
        values["private_key_file"] = str(raw.path(file))
    try:
        return OAuth(**values)
    except ConfigError as error:
        raw.reject("bad_value", error.message)
