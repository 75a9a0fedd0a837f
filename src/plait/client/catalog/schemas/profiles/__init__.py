"""Providers that accept only a small subset of JSON Schema."""
