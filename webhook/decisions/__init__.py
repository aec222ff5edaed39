"""What follows an answer: the decision log, and shadow policies."""
