"""The functions of CEL itself and of cel-go's extensions: a module for each library."""
