"""A gateway for work without an account: discovery, mock servers and chat history, offline."""
