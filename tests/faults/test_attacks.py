"""Attacks: bytes, documents, names and files made to harm who opens them. The table of docs/security.md, row by row."""
