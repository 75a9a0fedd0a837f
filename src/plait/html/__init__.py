"""Every page's parts, and the pages of runs: one renderer for the live viewer and single files.

Everything that comes from a model or a server is shown as text; `elements` is the only module that
writes markup. The pages of sessions and reports are built from these parts in their own rooms.
"""
