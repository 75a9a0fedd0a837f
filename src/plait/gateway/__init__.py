"""An agent's tool servers from a manifest or a hosted gateway, and its chat history back."""
