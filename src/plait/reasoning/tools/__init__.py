"""The tools of the server: their parameters, results and places in the modes."""
