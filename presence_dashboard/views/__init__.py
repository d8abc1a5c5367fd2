"""The pages, one module each, and the parts that they share."""
