"""Sign-ins that failed: noted by the site or by the script of login, and listed."""
