#!/bin/sh
# Write the secrets of compose.yaml into deploy/secrets, once: a random password of Valkey, in an ACL file for Valkey and
# in a URL for our programs, and an empty password file for staff. Existing files are kept.
# The directory is closed to other users of this machine. The files in it can be read by any user, because Compose
# mounts them as they are, and the containers run as users that do not exist on this machine.
set -eu
umask 022
directory=$(dirname "$0")/secrets
mkdir -p "$directory"
chmod 700 "$directory"
cd "$directory"
if [ ! -e redis_url ] || [ ! -e valkey_acl ]; then
    password=$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')
    printf 'user default off\nuser presence on >%s ~* &* +@all -@admin -@dangerous +info\n' "$password" > valkey_acl
    printf 'redis://presence:%s@valkey:6379/0\n' "$password" > redis_url
fi
[ -e staff ] || : > staff
echo "The secrets are in $directory."
