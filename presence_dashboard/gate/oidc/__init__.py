"""OIDC: what is the dashboard's own around Streamlit's sign-in at a provider."""
