"""The engine on Anthropic's Messages API."""
