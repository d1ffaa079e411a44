"""A record's way through the log: append, commit, checkpoint, read, open."""
