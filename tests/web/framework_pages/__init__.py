"""The pages of docs/use/frameworks: their sites run as they are printed."""
