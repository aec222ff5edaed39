"""Traces of reviews: what each part of an answer took, sent to a receiver by OpenTelemetry's protocol."""
