"""Text, numbers, times, URLs and addresses as Go reads and writes them. Each module stands for a Go package."""
