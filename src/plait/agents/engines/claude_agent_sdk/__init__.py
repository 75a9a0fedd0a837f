"""The engine on the Claude Agent SDK, which runs Claude's command line."""
