"""Opening, checkpoints, retention and compaction."""
