"""Oracles and generators that several tests share."""
