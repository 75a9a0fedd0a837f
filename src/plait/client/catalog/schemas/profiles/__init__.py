"""One module for each family of models: what it lets a schema say."""
