"""What Prometheus scrapes: the metric families of a snapshot and their text, also under other exporters' names."""
