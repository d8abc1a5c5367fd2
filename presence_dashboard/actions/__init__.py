"""What staff do: kick, block, bulk kick, erase, export, change roles, repair.

Plain data in and out, no page is drawn here. Each action asks ``access.require`` itself, so that no page can skip
the check. Imports ``data`` and ``access``; ``components`` and ``views`` import it. Start with ``kick_and_block``.
"""
