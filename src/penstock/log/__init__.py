"""Journal, group commit, segments, recovery: knows batches and frames, not what messages mean."""
