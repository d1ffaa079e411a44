"""`penstock user`, `key` and `acl`."""
