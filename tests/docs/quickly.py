"""Run a program with another `sys.executable`: `quickly.py PYTHON PROGRAM`, or `-m MODULE`."""

import runpy
import sys

sys.executable = sys.argv[1]
sys.argv = sys.argv[2:]
if sys.argv[0] == "-m":
    del sys.argv[0]
    sys.path[0] = ""
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
else:
    runpy.run_path(sys.argv[0], run_name="__main__")
