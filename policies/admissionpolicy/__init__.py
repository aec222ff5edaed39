"""ValidatingAdmissionPolicy and MutatingAdmissionPolicy: documents, bindings, parameters, evaluation."""
