"""Demur."""
