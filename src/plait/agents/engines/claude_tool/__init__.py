"""The engine on the tool runner of Anthropic's SDK."""
