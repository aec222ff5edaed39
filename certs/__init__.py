"""Proves who the webhook is: a CA, leaves, the decision to renew them, and the TLS context that serves them.

A leaf package: standard library and cryptography only. Time is always an argument (`now`, aware, UTC).

    names     -> authority -> leaf            make them
    renewal, bundle, plan                     decide, without I/O, each answer with its reason
    store, filepair, filebundle               files in and out
    serving                                   the live TLS context
    verify                                    explain to people what is there

Import the module you need, as in `from certs.storage.store import ensure`: importing `certs` itself loads nothing.
"""
