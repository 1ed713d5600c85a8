"""Capture: from a user-defined function to a graph of ATen and message passing operators."""
