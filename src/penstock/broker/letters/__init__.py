"""Dead letters: moved, looked at, sent again."""
