"""The commands, one module each; a module is imported when its command is used."""
