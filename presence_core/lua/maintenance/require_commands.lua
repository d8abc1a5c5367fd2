#!lua flags=no-writes
-- For a change of several steps: may the user run every command that these need?
-- include: permissions
-- KEYS: keys of one tag. Each command must be permitted on one of them
-- ARGV: commands in lower case
-- returns: OK, or an error that names the command
return refusal(ARGV) or redis.status_reply('OK')
