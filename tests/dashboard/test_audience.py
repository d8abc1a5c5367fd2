"""A sign-in that the identity provider issued for another client is none here."""

from __future__ import annotations

from typing import Any

import pytest

from presence_dashboard.gate.oidc.claims import check_audience
from presence_dashboard.roles import SignedOut


@pytest.fixture(autouse=True)
def _client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamlit.secrets", {"auth": {"client_id": "us"}})


@pytest.mark.parametrize("claims", [{"aud": "us"}, {"aud": ["other", "us"], "azp": "us"}, {"aud": ["us"]}])
def test_a_sign_in_for_this_client_is_accepted(claims: dict[str, Any]) -> None:
    check_audience(claims)


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "other", "azp": "us"},
        {"aud": ["other"], "azp": "us"},
        {"aud": ["us", "other"], "azp": "other"},
        {},
        {"azp": "us"},
    ],
)
def test_a_sign_in_for_another_client_is_refused(claims: dict[str, Any]) -> None:
    with pytest.raises(SignedOut):
        check_audience(claims)
