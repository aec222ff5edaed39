"""The functions of CEL itself and of cel-go's extensions. Each library is a module."""
