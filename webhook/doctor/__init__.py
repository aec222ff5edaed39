"""What is wrong with an installation, and how to put it right: values that were read in, findings out."""
