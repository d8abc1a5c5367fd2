"""Staff names from what an OpenID provider or a proxy says. Imports no Streamlit.

A staff name is stored in lower case. So two identities that a provider tells apart must not become one name by that.
"""

from __future__ import annotations

import string
from hashlib import sha256
from typing import Final

MOST_BYTES: Final = 128
_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def folded(text: str) -> str | None:
    """The name in lower case and without spaces around it; None if it cannot be one.

    Only ASCII is folded. A text that folding changes elsewhere is none: the Kelvin sign would become a ``k``, and a
    no-break space would vanish.
    """
    name = text.strip(" ").translate(_LOWER)
    is_same = name == name.strip() == name.lower()
    return (
        name if name and is_same and name.isprintable() and len(name.encode("utf-8", "replace")) <= MOST_BYTES else None
    )


def of_sub(sub: str) -> str | None:
    """The name of a ``sub``, which a provider compares exactly: another one for each. None if it cannot be one.

    One with capitals gets a digest, because in lower case it may be the ``sub`` of someone else. One that looks like an
    email is none: the record of that email may be someone else's, and no one has verified it.
    """
    name = folded(sub)
    if name is None or "@" in sub or sub != sub.strip():
        return None
    if name == sub and "~" not in sub:
        return name
    return folded(f"{name}~{sha256(sub.encode()).hexdigest()[:16]}")
