"""`MultiServerMCPClient`, and what it offers around tools: prompts, resources, middleware."""
