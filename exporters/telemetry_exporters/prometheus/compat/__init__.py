"""This node's readings under the names of other exporters: a table for each of them, and one interpreter."""
