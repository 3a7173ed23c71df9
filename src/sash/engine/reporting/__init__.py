"""SHOW, DESCRIBE, stats(), schedule(), and the numbers for Prometheus."""
