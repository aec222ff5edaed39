"""The certificate that is served, and the CA behind it."""
