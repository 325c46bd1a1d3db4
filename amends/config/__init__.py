"""amends.toml: a file comes in and a checked Config goes out; or a first file is written. Nothing imports torch."""

from amends.config.keys import TABLES, Key
from amends.config.read import Config, as_config, read_config

__all__ = ["TABLES", "Config", "Key", "as_config", "read_config"]
