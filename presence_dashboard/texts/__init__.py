"""Every word that the dashboard shows, a module for each page: to translate the dashboard, translate these files.

Text with a number or a name in it is a function. Its arguments have been made safe by ``format`` already, and may be
set into Markdown as they are. Other packages use all names from here, as ``texts.NAME``; only ``texts`` modules
import each other. Start with ``common``.
"""

# ruff: noqa: F403

from presence_dashboard.texts.blocks import *
from presence_dashboard.texts.bulk_kick import *
from presence_dashboard.texts.common import *
from presence_dashboard.texts.errors import *
from presence_dashboard.texts.health import *
from presence_dashboard.texts.history import *
from presence_dashboard.texts.kick import *
from presence_dashboard.texts.live import *
from presence_dashboard.texts.person import *
from presence_dashboard.texts.record_table import *
from presence_dashboard.texts.report import *
from presence_dashboard.texts.sessions import *
from presence_dashboard.texts.sign_in import *
from presence_dashboard.texts.staff import *
