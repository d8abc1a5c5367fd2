"""One small program per Python peer: each is started by the driver and obeys orders that it reads from stdin."""
