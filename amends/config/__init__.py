"""amends.toml: its keys, how it is read, and how a first one is written. Nothing here imports torch."""

from amends.config.keys import TABLES, Key
from amends.config.read import Config, as_config, read_config

__all__ = ["TABLES", "Config", "Key", "as_config", "read_config"]
