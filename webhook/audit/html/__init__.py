"""Findings as one page that opens in any browser and fetches nothing."""
