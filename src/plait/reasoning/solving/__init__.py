"""Solves problems exactly: a small language of constraints over an SMT solver."""
