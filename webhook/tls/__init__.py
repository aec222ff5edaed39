"""The served certificate and its CA."""
