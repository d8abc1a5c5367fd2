"""The pages, a package for each. Streamlit runs ``views/<page>/<page>.py`` as a script, at each event of a tab.

Streamlit gives a folder named ``pages`` next to ``main.py`` a meaning of its own, so this one is ``views``. A view
imports any other package, but no other view. To add a page, write its script and name it in ``main.PAGES``.
"""
