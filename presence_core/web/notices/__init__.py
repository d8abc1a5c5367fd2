"""Notices: a mail to the user about a login that is odd, with a link to say "this was me" or "this was not me".

``sender.NoticeSender`` follows the events of sessions. It writes a mail (``mail``) about each kind of event that
``kinds`` lists, and gives it to ``smtp.SmtpServer`` or to a function of the site. The queue is in Redis, and a notice
is claimed before it is sent: it is sent at most once, also with several senders.

``link`` makes the links and reads them. They lead to the page "Your devices" (``web.your_devices.notice_page``), and
``Webhooks(notice_link=…)`` has them too. Start with ``sender``. Only applications import this package.
"""
