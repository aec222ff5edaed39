"""Turns the text of an expression into its tree: lexer, parser, macros, and errors that show the place."""
