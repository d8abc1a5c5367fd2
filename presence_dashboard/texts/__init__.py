"""Every word that the dashboard shows, a module for each page. docs/translations.md describes the translations.

The modules have the English texts. ``texts.NAME`` is a text in the language of the page, at each access: do not keep
it in a constant. ``english.NAME`` is the same text in English, for values that must not change with the language.

Text with a number or a name in it is a ``Sentence`` or ``Counted``, which is called with them, or a function. The
values have been made safe by ``format`` already, and may be set into Markdown as they are. Other packages use all names
from here; only ``texts`` modules import each other. Start with ``common``.
"""

# ruff: noqa: F403

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from presence_dashboard.texts.english import *
else:
    from functools import cache
    from types import FunctionType

    from presence_dashboard.language import Counted, Sentence, current, translated
    from presence_dashboard.texts import english

    # These translate themselves when they are called.
    calls = FunctionType, Sentence, Counted
    globals().update({name: text for name, text in vars(english).items() if isinstance(text, calls)})

    @cache
    def _constant(name: str, _language: str) -> object:
        return translated(getattr(english, name))

    def __getattr__(name: str) -> object:
        return _constant(name, current())
