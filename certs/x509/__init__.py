"""Keys, certificates, authorities and bundles: made, read and verified."""
