"""The webhook's certificates: a CA, leaf certificates, when to renew them, and the TLS context that serves them.

The package uses only the standard library and cryptography. Time is always an argument (`now`, aware, UTC).

    names     -> authority -> leaf            make them
    renewal, bundle, plan                     decide, without I/O, each answer with its reason
    store, filepair, filebundle               files in and out
    serving                                   the live TLS context
    verify                                    explain a certificate chain to people

Import the module you need, as in `from certs.storage.store import ensure`: importing `certs` itself loads nothing.
"""
