"""The pages of docs/frameworks: their sites run as they are printed."""
