"""Stand-ins for what identifies cards, hosts and people, in whatever the tools print."""
