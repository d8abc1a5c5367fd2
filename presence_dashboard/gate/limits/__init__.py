"""What those who are not signed in may cost: attempts, checks of passwords, sockets."""
