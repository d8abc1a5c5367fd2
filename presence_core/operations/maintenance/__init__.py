"""The worker's duties: sweep, repair, samples and history, alerts, the lead among workers; and health.

Start reading at ``sweep``: it settles the sessions that are due (``operations/sessions/settle.py``). ``repair`` does
so for all sessions. ``health`` reads facts, which
``health_rules`` and ``server_rules`` judge.
"""
