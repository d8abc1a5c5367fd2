"""Your devices: a page and a JSON API on which visitors see their own sessions and end them.

Sites mount ``asgi.YourDevices`` or ``wsgi.YourDevices``, or include the URLs of ``web.django.your_devices``. All
run ``answers.DeviceAnswers``, which knows no framework and does no I/O. The page needs no JavaScript.

Start with ``answers``. ``options`` are the settings, ``device_list`` is what is shown, ``handles`` and ``csrf`` protect
it, ``page_html``, ``page_style`` and ``json_answers`` write it, ``language`` translates it.
"""
