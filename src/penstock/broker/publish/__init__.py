"""The one way in: every row of every queue is staged here."""
