"""HTTP for the API server: routes, AdmissionReview bytes, the decision, readiness."""
