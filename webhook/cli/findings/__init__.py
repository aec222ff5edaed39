"""What verbs say of what they judged, as records, and these records in the formats that people and machines read."""
