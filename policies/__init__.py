"""The decisions: values in, values out. No network, no clock, no environment; `webhook` brings those."""
