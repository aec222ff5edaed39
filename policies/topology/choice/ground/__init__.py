"""The Nodes as the choice sees them: their domains, and what is free beside what was promised."""
