"""Objects from files on a command line: which files, what becomes of each object, and what is said of it."""
