"""The base of every exception of this package."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

ErrorKind = Literal["protocol", "transport", "domain", "auth", "config", "unknown"]
"""The coarse class of an error, as `classify_error` reports it."""

RetryAdvice = Literal["never", "if_idempotent", "always"]
"""What a caller may do with the same request, on the same server, after this error."""


class PlaitError(Exception):
    """Base of every error raised by this package.

    The message is one line, names the server, and never holds a secret.
    """

    kind: ClassVar[ErrorKind] = "unknown"
    retryable: bool = False
    """Whether another server may be tried."""
    retry: RetryAdvice = "never"
    attempts: int = 0
    """How often a call was tried before this error."""
    trace: Any = None
    """The `Trace` so far, if this error ended a run of an agent."""
    messages: Any = None
    """The messages of model and tools in that trace."""
    usage: Any = None
    """The `UsageMetadata` of that trace."""

    def __init__(
        self,
        message: str,
        *,
        server: str | None = None,
        tool: str | None = None,
        code: int | None = None,
        status: int | None = None,
        retry_after: float | None = None,
        challenge: str | None = None,
        retry: RetryAdvice | None = None,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.server = server
        self.tool = tool
        self.code = code
        """The JSON-RPC error code, where the server sent one."""
        self.status = status
        """The HTTP status, where there was one."""
        self.retry_after = retry_after
        """Seconds from the server's `Retry-After`."""
        self.challenge = challenge
        """The `WWW-Authenticate` header, where the server sent one."""
        if retry is not None:
            self.retry = retry
        if retryable is not None:
            self.retryable = retryable

    def to_dict(self) -> dict[str, object]:
        """Describe the error as plain data; absent values are left out."""
        values: dict[str, object | None] = {
            "type": f"{self.kind}_error",
            "error": type(self).__name__,
            "message": self.message,
            "client": self.server,
            "tool_name": self.tool,
            "code": self.code,
            "status": self.status,
            "retry_after": self.retry_after,
            "challenge": self.challenge,
        }
        known = {name: value for name, value in values.items() if value is not None}
        return {**known, "retryable": self.retryable, "retry": self.retry}
