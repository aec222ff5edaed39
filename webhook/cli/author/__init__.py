"""The verbs of those who write policies: init, fmt, convert, export."""
