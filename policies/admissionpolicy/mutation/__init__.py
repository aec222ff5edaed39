"""How policies change objects: the merge of server-side apply, and JSON Patch."""
