pytest_plugins = ["plait.testing.fixtures"]
