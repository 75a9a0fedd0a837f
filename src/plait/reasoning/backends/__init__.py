"""Backends: the protocol of a model, and an implementation for each kind."""
