"""Who this client is to a server on HTTP."""

from plait.transports.auth.choose import auth_of

__all__ = ["auth_of"]
