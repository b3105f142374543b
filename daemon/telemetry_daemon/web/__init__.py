"""HTTP serving: connections in server/, TLS and passwords in access/, and what both share."""
