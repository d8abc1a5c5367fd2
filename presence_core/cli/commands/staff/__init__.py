"""Staff: whom they block, what the audit log has of them, and who they are."""
