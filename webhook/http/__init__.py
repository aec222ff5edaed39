"""HTTP towards the API server: routes, AdmissionReview bytes, the decision, readiness."""
