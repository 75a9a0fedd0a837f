"""An MCP server that fails on demand: `python -m plait.testing.faults --help`."""
