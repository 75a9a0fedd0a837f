"""Stand-ins for the HTTP APIs of model providers, on this machine."""
