"""Random programs on random graphs: eager and compiled execution must agree.

`trials.py` draws a trial (a program as Python source, a graph, and how to compile), `check.py` runs
one, `__main__.py` is `./dev fuzz`.
"""
