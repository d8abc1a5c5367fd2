"""The dialog in which an admin approves or refuses a request of another person.

The sessions are counted again. The admin may change the texts and the block, not the filter: for another filter they
refuse, or kick in their own name.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from html import escape
from typing import Final

import streamlit as st

from presence_core import ApprovalRequest, InvalidArgument, KickPreview, Session, SessionFilter, TimeoutsPreview
from presence_dashboard import access, texts
from presence_dashboard.actions import approvals, bulk_kick
from presence_dashboard.actions.approvals import KickPart, RulePart, TimesPart
from presence_dashboard.actions.bulk_kick import PeopleCount
from presence_dashboard.actions.kick_and_block import ActionDetails
from presence_dashboard.components import account, notifications
from presence_dashboard.components.block_choice import RULE_ENDS, fill_rule
from presence_dashboard.components.notifications import Notification
from presence_dashboard.components.tickets import ticket_box
from presence_dashboard.data import history_query
from presence_dashboard.data.browser_tab import local_time, this_tab, zone
from presence_dashboard.data.shared_reads import network_names
from presence_dashboard.data.store import open_store
from presence_dashboard.error_sentences import REFUSALS, plain
from presence_dashboard.format import code, cut, literal, name, number
from presence_dashboard.texts import english
from presence_dashboard.views.sessions.block_form import BlockForm, block_form, follow_started, not_kicked
from presence_dashboard.views.sessions.bulk_kick_dialog import SAMPLE, is_number, show_matches
from presence_dashboard.views.sessions.bulk_timeouts_dialog import show_figures

OFFERED: Final = 200
"""Sessions that can be left out one by one: the most that a request may exclude."""

_REVIEW: Final = "approval-review"
_NUMBER: Final = "approval-number"


@dataclass(slots=True)
class Review:
    """The request that the dialog is about."""

    number: int  #: new for every dialog
    request: ApprovalRequest
    block: BlockForm = field(default_factory=BlockForm)
    asked: PeopleCount | None = None  #: of all that the request reaches: what can be left out
    preview: KickPreview | None = None
    times: TimeoutsPreview | None = None  #: of a change of timeouts, which has no preview of a kick
    people: PeopleCount | None = None
    failure: str | None = None  #: why it could not be counted
    has_right: bool = True  #: whether the person who asked still may
    problem: str | None = None

    @property
    def key(self) -> str:
        return f"review-{self.number}"

    @property
    def counted(self) -> KickPreview | TimeoutsPreview | None:
        return self.times or self.preview


def open_dialog(request: ApprovalRequest) -> None:
    number: int = st.session_state.get(_NUMBER, 0) + 1
    st.session_state[_NUMBER] = number
    review = Review(number, request, BlockForm(begin=_kind(request), end=_end(request)))
    st.session_state[_REVIEW] = review
    for name_of_field, value in (
        ("reason", request.reason), ("message", request.message), ("ticket", request.ticket),
    ):  # fmt: skip
        st.session_state[f"{review.key}-{name_of_field}"] = value or ""


def _kind(request: ApprovalRequest) -> str:
    """The kind of the rule: an English label."""
    known = {
        english.RULE_NETWORK: request.network, english.RULE_COUNTRY: request.country, english.RULE_VERSION: request.app,
    }  # fmt: skip
    return next((label for label, value in known.items() if value), english.BLOCK_ALSO_NOT)


def _end(request: ApprovalRequest) -> str | None:
    if request.blocks is None:
        return None
    return next(label for label, seconds in RULE_ENDS.items() if seconds == request.duration or seconds is None)


def _close() -> None:
    st.session_state.pop(_REVIEW, None)


def dialog() -> bool:
    review: Review | None = st.session_state.get(_REVIEW)
    if review is not None and not access.current().may("approve"):  # the role was lost
        _close()
        return False
    if review is not None:
        st.dialog(texts.REVIEW_TITLE, width="medium", on_dismiss=_close)(_body)(review)
    return review is not None


def _body(review: Review) -> None:
    account.idle_warning("dialog")
    must_sign_in_again = account.must_sign_in_again("review")
    request, by = review.request, name(cut(review.request.by, 40))
    if review.counted is None and review.failure is None:
        with st.spinner(texts.BULK_COUNTING):
            _count(review)
    st.html(f'<div class="presence-request"><p>{escape(asked_in_words(request))}</p></div>')
    may_approve = False
    if review.failure is not None:
        st.warning(texts.action_failed(review.failure))
        st.button(texts.BULK_AGAIN, key=f"{review.key}-again", on_click=_count_again, args=(review,))
    elif not review.has_right:
        st.warning(texts.review_no_right(by))
    elif request.filter is not None and not (
        review.times.total if review.times else review.asked and review.asked.count
    ):
        st.info(texts.REVIEW_NONE)
    else:
        may_approve = True
    details, rule = _fields(review) if may_approve else (None, None)
    if request.filter is not None and review.preview is not None and not review.preview.total:
        details = None  # all are left out
    _answers(review, by, details, rule, disabled=this_tab().away or must_sign_in_again)


def asked_in_words(request: ApprovalRequest) -> str:
    """Who asked, when and why. No Markdown or HTML."""
    return texts.request_asked(literal(cut(request.by, 40)), local_time(request.at), literal(request.reason))


def _count(review: Review) -> None:
    request, presence = review.request, open_store().presence
    try:
        review.has_right = approvals.may_still_ask(presence, request)
        if request.filter is not None and request.changes_timeouts:
            times = request.idle_timeout, request.absolute_timeout
            review.times = bulk_kick.preview_timeouts(presence, request.filter, *times)
        elif request.filter is not None:
            wanted, exclude = _narrowed(review, request.filter), _excluded(review)
            preview = bulk_kick.preview(presence, wanted, exclude)
            people = bulk_kick.count_people(presence, preview, frozenset(exclude), OFFERED)
            review.asked = review.asked or people
            review.preview, review.people = preview, replace(people, sample=people.sample[:SAMPLE])
        review.failure = None
    except REFUSALS as error:
        review.failure = plain(error)


def _count_again(review: Review) -> None:
    review.preview = review.times = review.failure = None


def _narrowed(review: Review, asked: SessionFilter) -> SessionFilter:
    """The filter of the request, with the chosen values of facets."""
    return replace(asked, **dict(st.session_state.get(f"{review.key}-only", ())))


def _excluded(review: Review) -> tuple[str, ...]:
    """The sessions that the request leaves out, and those that are chosen."""
    return (*review.request.exclude, *st.session_state.get(f"{review.key}-without", ()))


def _chosen(review: Review) -> None:
    """Count again. A filter asks for one value of a facet: the latest that was chosen."""
    key = f"{review.key}-only"
    st.session_state[key] = [*{field: (field, value) for field, value in st.session_state[key]}.values()]
    _count_again(review)


def _values(people: PeopleCount, asked: SessionFilter) -> list[tuple[str, str]]:
    """Facets and values that some of the sessions have, and the request does not ask for; the most frequent first."""
    known = [(count, value) for value, count in people.values.items() if getattr(asked, value[0]) is None]
    return [value for _, value in sorted(known, key=lambda pair: (-pair[0], pair[1]))]


def _narrowing(review: Review, asked: SessionFilter, people: PeopleCount) -> None:
    """Leave out some of the sessions: those without a value, or single ones. Each choice counts again."""
    key, most = review.key, OFFERED - len(review.request.exclude)
    chosen: list[tuple[str, str]] = st.session_state.get(f"{key}-only", [])
    fields = {field for field, _ in chosen}
    rows = {session.ref: session for session in people.sample}
    st.multiselect(
        texts.REVIEW_ONLY,
        [*chosen, *(value for value in _values(people, asked) if value[0] not in fields)],
        key=f"{key}-only",
        format_func=lambda value: _value_words(value[0], value[1], people.values.get(value, 0)),
        filter_mode="contains",
        placeholder=texts.REVIEW_ONLY_ALL,
        on_change=_chosen,
        args=(review,),
    )
    st.multiselect(
        texts.REVIEW_LEAVE_OUT,
        list(rows),
        key=f"{key}-without",
        format_func=lambda ref: _session_words(rows[ref]),
        max_selections=max(most, 1),
        filter_mode="contains",
        placeholder=texts.REVIEW_LEAVE_OUT_NONE,
        help=texts.review_leave_out_help(OFFERED),
        on_change=_count_again,
        args=(review,),
    )


def _value_words(field: str, value: str, count: int) -> str:
    shown = texts.provider(network_names().get(value), value) if field == "network" else value
    return texts.facet_value(texts.labelled(texts.FACET_LABELS[field], literal(cut(shown, 40))), number(count))


def _session_words(session: Session) -> str:
    known = (session.name, session.uid, session.device, session.last_ip)
    return literal(", ".join(cut(value, 40) for value in known if value))


def _fields(review: Review) -> tuple[ActionDetails, RulePart | str | None]:
    """What the admin sees and may change. Outside of the form, because the fields of a block depend on each other."""
    request, key, actor = review.request, review.key, access.current()
    if request.filter is not None and review.times is not None:
        which = history_query.filter_in_words(request.filter, request.at, actor, zone())
        show_figures(review.times, code(cut(which, 200)) if which else texts.BULK_EVERYONE, actor)
    if request.filter is not None and review.preview is not None and review.people is not None:
        which = history_query.filter_in_words(review.preview.filter, request.at, actor, zone())
        show_matches(review.preview, review.people, code(cut(which, 200)) if which else texts.BULK_EVERYONE)
        if review.preview.total != request.sessions:
            by = name(cut(request.by, 40))
            st.caption(texts.review_before(request.sessions, number(request.sessions), by))
        if review.asked is not None:
            _narrowing(review, request.filter, review.asked)
    fill_rule(
        key,
        SessionFilter(ip=request.network, country=request.country, app=request.app, app_version=request.app_version),
    )
    reason = st.text_area(texts.REASON, key=f"{key}-reason", max_chars=500, height=72, help=texts.REASON_HELP)
    if review.times is not None:
        return ActionDetails(reason.strip(), None, ticket_box(f"{key}-ticket")), None
    message = st.text_area(texts.MESSAGE, key=f"{key}-message", max_chars=500, height=72, help=texts.MESSAGE_HELP)
    ticket = ticket_box(f"{key}-ticket")
    rule = block_form(key, review.block, confirms_wide=True)
    return ActionDetails(reason.strip(), message.strip() or None, ticket), rule


def _answers(
    review: Review, by: str, details: ActionDetails | None, rule: RulePart | str | None, *, disabled: bool
) -> None:
    """The form with the answers. details: None if the request can only be refused."""
    key, total = review.key, review.counted.total if review.counted else 0
    typed, approved = "", False
    with st.form(f"{key}-answers", border=False, enter_to_submit=False):
        if details is not None and total:
            typed = st.text_input(texts.bulk_type(number(total)), key=f"{key}-typed", autocomplete="off")
        word = st.text_input(texts.review_word(by), key=f"{key}-word", max_chars=500)
        with st.container(key="dialog-foot"):
            problem = st.container()
            with st.container(horizontal=True, gap="small"):
                if details is not None:
                    approved = st.form_submit_button(
                        _label(review, total, has_rule=rule is not None),
                        key=f"danger-{key}",
                        type="primary",
                        disabled=disabled,
                        on_click=notifications.check,
                        args=("approve", approvals.APPROVE),
                    )
                refused = st.form_submit_button(
                    texts.REVIEW_REFUSE,
                    key=f"{key}-refuse",
                    disabled=this_tab().away,
                    on_click=notifications.check,
                    args=("approve", approvals.REFUSE),
                )
                cancelled = st.form_submit_button(texts.CANCEL, key=f"{key}-cancel")
    if cancelled:
        _close()
        st.rerun()
    if refused:
        review.problem = _refuse(review, by, word.strip())
    elif approved and details is not None:
        review.problem = _missing(total, typed, details, rule)
        if review.problem is None and not isinstance(rule, str):
            review.problem = _approve(review, rule, details)
    if review.problem is not None:
        problem.warning(review.problem)


def _missing(total: int, typed: str, details: ActionDetails, rule: RulePart | str | None) -> str | None:
    """What the admin has yet to enter, as a sentence."""
    if not details.reason:
        return texts.REASON_MISSING
    if isinstance(rule, str):
        return rule
    if total and not is_number(typed, total):
        return texts.bulk_mistyped(number(total))
    return texts.BLOCK_ALSO_INCOMPLETE if not total and rule is None else None


def _label(review: Review, total: int, *, has_rule: bool) -> str:
    if review.times is not None:
        return texts.review_timeouts(total, number(total))
    if not total:
        return texts.REVIEW_BLOCK
    return texts.review_both(total, number(total)) if has_rule else texts.review_kick(total, number(total))


def _approve(review: Review, rule: RulePart | None, details: ActionDetails) -> str:
    """Approve and close the dialog; or return why nothing was started."""
    store, request = open_store(), review.request
    kick = KickPart(review.preview, _excluded(review)) if review.preview else None
    times = TimesPart(review.times, request.idle_timeout, request.absolute_timeout) if review.times else None
    try:
        started = approvals.approve(store, request, kick, rule, details, times)
    except InvalidArgument as error:
        approvals.requests(store, fresh=True)
        if error.field == "expected" and (kick or times):
            _count_again(review)
            review.problem = texts.BULK_GROWN
            st.rerun()
        return texts.action_failed(plain(error))
    except REFUSALS as error:
        approvals.requests(store, fresh=True)
        return texts.action_failed(plain(error))
    if started.failure is not None:
        notifications.notify(notifications.failed(not_kicked(started)))
    else:
        notifications.notify(Notification("done", texts.request_is_approved(name(cut(request.by, 40)))))
    follow_started(started)
    approvals.requests(store, fresh=True)
    _close()
    st.rerun()


def _refuse(review: Review, by: str, word: str) -> str:
    """Refuse and close the dialog; or return why not."""
    store = open_store()
    if not word:
        return texts.REVIEW_WORD_MISSING
    try:
        approvals.refuse(store.presence, review.request, word)
    except REFUSALS as error:
        approvals.requests(store, fresh=True)
        return texts.action_failed(plain(error))
    notifications.notify(Notification("done", texts.request_is_refused(by)))
    approvals.requests(store, fresh=True)
    _close()
    st.rerun()
