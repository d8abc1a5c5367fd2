"""Small wrong changes to the product, one at a time: each must make a test fail. ``python -m tests.mutants`` runs them.

The kept tools (mutmut, cosmic-ray) mutate Python only and choose their changes themselves. Lua needs patches of our
own, and this list is fixed and has names: so one mechanism, find and replace, serves both.
"""
