"""Identity providers: sessions that end because a provider says so. Start reading at ``provider_logout``."""
