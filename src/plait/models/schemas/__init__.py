"""JSON Schemas of tools, converted for the models of each provider."""
