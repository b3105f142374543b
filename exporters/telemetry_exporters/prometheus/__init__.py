"""Prometheus exposition: the metric families of a snapshot and their text, also under other exporters' names."""
