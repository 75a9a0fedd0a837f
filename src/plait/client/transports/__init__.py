"""Transports to one server, and the repair of its results."""
