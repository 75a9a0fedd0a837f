"""Whoever writes the thoughts: one port, and an implementation for each kind of model."""
