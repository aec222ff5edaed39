"""What a careful reviewer would say of policies, without running them."""
