"""ValidatingAdmissionPolicy and MutatingAdmissionPolicy: documents, bindings, params, evaluation."""
