"""Text, numbers, times, URLs and addresses as Go reads and writes them; a module for each Go package."""
