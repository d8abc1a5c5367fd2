"""Bulk kicks: jobs in Redis that end every session that matches a filter.

Start reading at ``creation`` (the filter is frozen, the matches are counted, the job is written), then ``runner`` (the
sessions are ended, page by page), ``states`` (staff pause, resume and cancel) and ``jobs`` (jobs are read and listed).
The client and the worker use this package; it uses ``search`` and ``sessions``.
"""
