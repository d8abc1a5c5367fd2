"""Changes that no failover undoes: held by the client until enough replicas have them, and applied again where lost.

Start reading at ``held_changes``. Each domain has the changes of its own; ``replica_ack`` asks them what to read and
what to repeat. The other domains use this package, and it uses none of them.
"""
