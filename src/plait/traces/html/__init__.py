"""HTML of runs: one renderer for the live viewer, for single files and for reports.

Everything that comes from a model or a server is shown as text; `elements` is the only module that
writes markup.
"""
