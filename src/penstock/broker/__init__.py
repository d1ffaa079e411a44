"""The one API that gateways call: publish, subscribe, settle, declare."""
