"""placeholder"""

from log_tier.embedded.engine import EmbeddedLog, EngineStatistics
from log_tier.embedded.opening import RecoveryReport
from log_tier.embedded.retention import Retention
from log_tier.embedded.settings import EngineSettings

__all__ = ["EmbeddedLog", "EngineSettings", "EngineStatistics", "RecoveryReport", "Retention"]
