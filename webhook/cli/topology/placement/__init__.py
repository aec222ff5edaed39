"""`cks-admission topology place`: what becomes of gangs, as values, as text and as data."""
