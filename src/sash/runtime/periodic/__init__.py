"""Queries under SLIDE: pane groups, schedules, joint executions."""
