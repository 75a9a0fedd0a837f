"""The checks behind `plait doctor`, and how their findings are shown."""
