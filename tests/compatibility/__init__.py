"""What is proven for which release of Kubernetes: results of the proofs, and the page with the table of them."""
