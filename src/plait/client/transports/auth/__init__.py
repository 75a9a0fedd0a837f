"""Who this client is to a server on HTTP."""

from plait.client.transports.auth.choose import auth_of

__all__ = ["auth_of"]
