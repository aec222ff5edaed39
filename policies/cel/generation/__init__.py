"""The fast evaluator: an expression as a generated Python function."""
