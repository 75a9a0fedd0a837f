"""Run a program whose own Python programs start at once: `quickly.py PYTHON PROGRAM`."""

import runpy
import sys

sys.executable = sys.argv[1]
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
