"""Why an expression was false or failed, for people."""
