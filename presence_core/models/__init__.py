"""The records that the library returns: frozen and slotted; each decodes itself from a reply.

Start reading in ``sessions.py``. ``choices.py`` has the closed sets of texts; ``plain.py`` prepares records for JSON.
What this module imports is what it exports (``pyproject.toml`` says so to mypy and ruff).
"""

from presence_core.models.alerts import Alert, AlertCount, FailureAlert, Notice, NoticeReport, PersonAlert
from presence_core.models.answers import (
    Counts,
    DistantLogin,
    Event,
    KickResult,
    Page,
    Person,
    Plan,
    ReshardReport,
    SessionMoved,
    SignIn,
    SignInResult,
    SweepReport,
    read_sign_ins,
    sign_in_text,
)
from presence_core.models.approvals import ApprovalRequest, ApprovedAct
from presence_core.models.audit import AuditEntry, AuditFact, in_english, read_facts, write_facts
from presence_core.models.block_rules import BlockRule, BlockRulePreview, RuleMatch, read_stored, write_stored
from presence_core.models.choices import (
    LEVELS,
    STAFF_ROLES,
    ApprovalAnswer,
    ApprovalState,
    BlockRuleKind,
    FailureCode,
    FindingLevel,
    JobErrorCode,
    JobKind,
    JobState,
    ListOrder,
    NoticeAnswer,
    NoticeState,
    SavedKind,
    StaffRole,
    WayName,
)
from presence_core.models.failures import FailedLogin, FailedNetwork
from presence_core.models.health import Finding, Health, NodeHealth, SentinelHealth, Spread
from presence_core.models.history import (
    NO_RUNNER,
    START_A_WORKER,
    Sample,
    TopCount,
    TopPeople,
    TopPerson,
    WorkerStatus,
    no_worker,
)
from presence_core.models.mirror import MirrorStatus
from presence_core.models.places import Move, Origin, Place
from presence_core.models.plain import plain
from presence_core.models.sessions import (
    CORE,
    INLINE,
    NO_LABEL,
    NO_LABELS,
    Ended,
    Labels,
    Login,
    PublicBlock,
    PublicEnd,
    Record,
    Session,
    Validation,
    ValidationFailed,
    ValidationPassed,
    as_ms,
    attributes_of,
    in_words,
    login_and_deadline,
    login_ms,
    moment,
    stored_number,
    text,
)
from presence_core.models.staff import (
    BLOCK_FIELDS,
    JOB_FIELDS,
    ApiKey,
    Block,
    EraseReport,
    Job,
    KickPreview,
    MatchedPerson,
    Remark,
    SavedItem,
    StaffMember,
    TimeoutsChange,
    TimeoutsPreview,
    Viewer,
)
from presence_core.schema.endings import EndCause, EndReason, EventKind
