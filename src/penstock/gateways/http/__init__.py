"""HTTP: publish, receive, settle, browse and administer, from anything that can send a request."""
