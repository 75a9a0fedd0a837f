"""One tool call, and the toolbox that offers them all."""
