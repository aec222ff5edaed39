"""Where gangs of a stream land on a real scheduler, by each way of keeping them together, and what that costs."""
