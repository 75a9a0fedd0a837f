"""Which models there are: providers, and endpoints on this machine."""
