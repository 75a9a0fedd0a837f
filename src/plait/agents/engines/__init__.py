"""Tools, content and messages in the shapes of the frameworks that use them."""
