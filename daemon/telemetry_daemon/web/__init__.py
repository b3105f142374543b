"""HTTP serving: connections in server/, TLS and passwords in access/, and shared modules here."""
