"""The webhook's certificates: a CA, leaf certificates, when to renew them, and the TLS context that serves them.

The package uses only the standard library and cryptography. Time is always an argument (`now`, aware, UTC). Import the
module you need: importing `certs` itself loads nothing.
"""
