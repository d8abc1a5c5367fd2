"""The dashboard for support staff: pages over the methods of ``Presence``.

Start reading at ``main.py``: it decides which page a request sees. The packages, each of which imports only from those
above it::

    texts, format, roles, error_sentences   words, safe text, what each role may do
    data                                    what pages read, and what one browser tab shows
    staff_names, gate_settings, gate,
    access                                  sign-in, and the rights of the actor
    actions                                 what staff do: kick, block, export, repair
    components                              parts of a page that several pages draw
    views                                   the pages, a package for each
    browser_files                           scripts, style sheets and icon for the browser
    demo                                    a site with visitors, for a look at all of this; starts the dashboard

``dashboard.py``, next to this package (in a wheel: inside it), serves the app; ``__main__`` checks the settings first.
"""
