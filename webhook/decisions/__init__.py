"""What follows an answer: the log of decisions, and policies in the shadow."""
