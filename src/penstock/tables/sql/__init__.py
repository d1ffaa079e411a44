"""Questions about queues in SQL, answered by DuckDB from their tables."""
