"""Reviews that take long: what the event loop spends on one, and the child process that judges the others."""
