"""Rules and formats of Kubernetes itself: names, labels, statuses, quantities in text."""
