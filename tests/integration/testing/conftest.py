"""The fixtures under test, as a user's conftest would load them."""

from plait.testing.fixtures import blackhole_port, fault_proxy, fault_server, mcp_test_server

__all__ = ["blackhole_port", "fault_proxy", "fault_server", "mcp_test_server"]
