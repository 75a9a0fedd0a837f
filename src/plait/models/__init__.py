"""Models: providers, endpoints on this machine, and scripts that stand in for a model."""
