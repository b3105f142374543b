"""The dashboards: what each shows, and the small layer over Grafana's SDK in which a panel is one readable line."""
