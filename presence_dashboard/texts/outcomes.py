"""What staff actions did. The audit has facts; a page says them in its own language."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final

from presence_core import AuditFact
from presence_core.models import moment
from presence_core.schema.audit_facts import FACTS, VALUE_KINDS, FactValue
from presence_dashboard.language import gettext as _
from presence_dashboard.language import ngettext, number
from presence_dashboard.texts.history import act

SAVED_KINDS: Final = {"view": "View", "phrase": "Phrase", "watch": "Watched person"}


def outcome(facts: Iterable[AuditFact], end: Callable[[datetime], str], at: Callable[[datetime], str]) -> str:
    """These facts in the language of the page. ``end`` words the end of a block, ``at`` any other time."""

    def shown(name: str, value: FactValue) -> str:
        kind = VALUE_KINDS.get(name)
        if kind == "number" and isinstance(value, int):
            return number(value)
        if kind == "tickets":
            return f" ({value})" if value else ""
        if kind == "action":
            return act(str(value))
        if kind == "saved_kind":
            return _(SAVED_KINDS.get(str(value), str(value)))
        if kind == "time" and isinstance(value, int):
            return at(moment(value))
        if kind in ("block_end", "rule_end"):
            if isinstance(value, int):
                return _("until {moment}").format(moment=end(moment(value)))
            return _("until removed") if kind == "rule_end" else _("until unblocked")
        return str(value)

    def sentence(fact: AuditFact) -> str:
        form = FACTS[fact.code]
        count = fact.values.get("count")
        if form.plural and isinstance(count, int):
            words = ngettext(form.singular, form.plural, count)
        else:
            words = _(form.singular)
        return words.format_map({name: shown(name, value) for name, value in fact.values.items()})

    return ", ".join(map(sentence, facts))
