"""Certificates in files and directories."""
