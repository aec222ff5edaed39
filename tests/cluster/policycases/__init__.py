"""Policies, requests and what both sides say of them: the cases of the differential proof."""
