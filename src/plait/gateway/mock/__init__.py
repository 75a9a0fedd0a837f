"""A local gateway for development and tests: discovery, mock servers and chat history."""
