"""Documents in; policies, bindings and exceptions out, with all problems and their places."""
