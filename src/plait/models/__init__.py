"""Models: providers, the schemas they accept, endpoints on this machine, and scripted stand-ins."""
