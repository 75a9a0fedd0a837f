"""The tasks, wordings, checkers and ways of the evaluation, frozen before any solver was written.

`digest.txt` has the SHA-256 of every other file here, and of all of them together; a test holds the
folder to it. Prompts may be tuned on other seeds only. `wording_b` is held back: whoever writes
prompts or forms does not open it.
"""
