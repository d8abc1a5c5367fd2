"""One small program per Python peer: the driver starts it and sends it orders on stdin."""
