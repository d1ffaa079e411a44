"""The `penstock` command, one file a noun."""
