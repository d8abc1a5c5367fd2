"""The worker's duties: sweep, repair, samples and history, alerts, the lead among workers; and health.

Start reading at ``sweep``: it settles the sessions that are due (lua/maintenance/settle_sessions.lua). ``repair`` does
so for all sessions, and reads of other packages do so for sessions that they find stale. ``health`` reads facts, which
``health_rules`` and ``server_rules`` judge.
"""
