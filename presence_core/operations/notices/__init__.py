"""Notices: tell users about odd logins on their account, and take their answers.

``queue`` holds what is to be sent: each notice once, claimed before it is sent, so that of several senders one sends
it. ``answers`` does what the link in a notice asks for. ``report`` says how the sending goes. The sender itself is in
``presence_core.web.notices``.
"""
