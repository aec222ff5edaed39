"""What Kubernetes itself lays down: names, labels, statuses, quantities in text."""
