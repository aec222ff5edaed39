"""Makes the webhook configurations from the rules, writes them, watches them and repairs them."""
