"""Static analysis of policies: finds mistakes without evaluating them."""
