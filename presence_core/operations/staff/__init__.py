"""Staff: members and their roles, API keys, blocks, and the audit of what staff did.

Start reading at ``blocks`` for a change that is audited, and at ``audit`` for how the entries are read. A script that
changes something for staff writes its audit entry in the same step (lua/include/staff/audit_entry.lua).
"""
