"""A policy changes an object: the merge of server-side apply, and JSON Patch."""
