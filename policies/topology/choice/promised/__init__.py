"""Room that was promised to gangs: what they lack, and what others find reserved."""
