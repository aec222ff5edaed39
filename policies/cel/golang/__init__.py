"""What the reference owes to Go: its texts, times, numbers and regular expressions as Go writes and reads them."""
