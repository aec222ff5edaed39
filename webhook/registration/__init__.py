"""The webhook configurations: made from the rules, written, watched and repaired."""
