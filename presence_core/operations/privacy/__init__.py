"""One person's data: erase it, export it, and truncate the addresses of ended sessions.

Start reading at ``erase``, which says in which order a person is erased. ``identity`` finds everything that names the
person; ``rewrite`` removes that from streams, denied attempts, bulk kicks and texts that others still read.
"""
