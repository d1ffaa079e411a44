"""Words every layer shares: ids and units, errors, ports, metrics, log lines. Imports nothing of Penstock."""
