"""Agents: what every engine is asked for and gives back, and which engine runs."""
