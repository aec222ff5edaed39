"""From the text of an expression to its tree: lexer, parser, macros, and errors that show the place."""
