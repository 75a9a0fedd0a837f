"""A soak of the client: many callers, a fault a second, and a ledger behind the servers."""
