"""Tests of presence_core/web, and of the demo site."""
