"""All texts in English. Code that shows a text uses ``texts.NAME``; this is for values that no language changes."""

# ruff: noqa: F403

from presence_dashboard.texts.approvals import *
from presence_dashboard.texts.blocks import *
from presence_dashboard.texts.bulk_kick import *
from presence_dashboard.texts.common import *
from presence_dashboard.texts.endings import *
from presence_dashboard.texts.errors import *
from presence_dashboard.texts.failures import *
from presence_dashboard.texts.health import *
from presence_dashboard.texts.history import *
from presence_dashboard.texts.kick import *
from presence_dashboard.texts.live import *
from presence_dashboard.texts.outcomes import *
from presence_dashboard.texts.person import *
from presence_dashboard.texts.record_table import *
from presence_dashboard.texts.report import *
from presence_dashboard.texts.sessions import *
from presence_dashboard.texts.sign_in import *
from presence_dashboard.texts.staff import *
