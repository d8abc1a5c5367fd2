"""Reshard: move a namespace to another number of shards while the site runs. Only the client imports this package.

Start reading at ``coordinator``, which names the steps. ``fences`` keep other processes off. ``copier`` and ``labels``
copy keys while they are in use; ``final_copy`` copies the rest while the shards are frozen, and compares.
"""
