"""Run the fault server."""

from plait.testing.faults.program import main

main()
